import os
import signal
import threading
import time
waits = threading.Event()
threading.Thread(target=waits.wait, args=(1,)).start()
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
