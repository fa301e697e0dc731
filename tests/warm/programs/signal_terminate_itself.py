import os
import signal
print("lost in the buffer")
os.kill(os.getpid(), signal.SIGTERM)
