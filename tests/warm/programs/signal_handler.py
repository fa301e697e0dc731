import os
import signal


def handler(number, frame):
    print("got", signal.Signals(number).name, frame.f_code.co_name)


signal.signal(signal.SIGUSR1, handler)
signal.raise_signal(signal.SIGUSR1)
os.kill(os.getpid(), signal.SIGUSR1)
print("end")
