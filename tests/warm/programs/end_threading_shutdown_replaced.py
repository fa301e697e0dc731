import threading

threading._shutdown = lambda: print("in place of _shutdown")
