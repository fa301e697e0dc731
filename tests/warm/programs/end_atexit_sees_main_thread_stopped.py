import atexit
import threading

atexit.register(lambda: print("main thread alive:", threading.main_thread().is_alive()))
try:
    threading._register_atexit(print, "before the threads are joined")
except RuntimeError as error:
    print(error)
