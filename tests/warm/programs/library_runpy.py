#: files {"tool/__init__.py": "", "tool/__main__.py": "import sys\nprint(__name__, __package__, sys.argv[0].endswith('__main__.py'))\n", "script.py": "print(__name__, __file__)\nvalue = 3\n"}
import runpy
runpy.run_module("tool", run_name="__main__", alter_sys=True)
print(runpy.run_path("script.py", run_name="named")["value"], __name__)
