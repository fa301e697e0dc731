import atexit
import os
atexit.register(print, "never")
print("not flushed", end="")
os._exit(8)
