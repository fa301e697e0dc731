import atexit
import threading


@atexit.register
def late():
    thread = threading.Thread(target=print, args=("late thread",))
    thread.start()
    thread.join()
