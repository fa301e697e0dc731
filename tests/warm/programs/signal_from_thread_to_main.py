import signal
import threading
import time


def handler(number, frame):
    print(threading.current_thread() is threading.main_thread())


signal.signal(signal.SIGUSR1, handler)
thread = threading.Thread(target=lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1))
thread.start()
thread.join()
time.sleep(0.01)
print("end")
