import os
import signal
import time
signal.signal(signal.SIGCHLD, lambda number, frame: print("child ended"))
if os.fork() == 0:
    os._exit(0)
os.wait()
time.sleep(0.01)
print("end")
