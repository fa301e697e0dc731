import sys
print("json" in sys.modules, "re" in sys.modules, "tkinter" in sys.modules, "unittest" in sys.modules)
