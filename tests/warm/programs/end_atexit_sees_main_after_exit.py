import atexit
import sys


@atexit.register
def look():
    print("__file__" in globals(), "__cached__" in globals(), sys.exc_info())


sys.exit(0)
