import os
import signal
import time
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)
except KeyboardInterrupt:
    print("interrupted")
os.kill(os.getpid(), signal.SIGINT)
time.sleep(5)
