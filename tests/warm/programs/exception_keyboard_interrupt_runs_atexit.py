import atexit
atexit.register(print, "atexit")
try:
    raise KeyboardInterrupt("pressed")
finally:
    print("finally")
