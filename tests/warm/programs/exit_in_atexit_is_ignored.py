import atexit
import sys
atexit.register(lambda: sys.exit(9))
print("end")
