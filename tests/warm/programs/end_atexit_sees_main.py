import atexit
import sys


@atexit.register
def look():
    print("__file__" in globals(), "__cached__" in globals(), __name__, sys.modules["__main__"].__dict__ is globals())
