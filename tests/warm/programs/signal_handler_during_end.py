import atexit
import signal


class Noisy:
    def __del__(self, raise_signal=signal.raise_signal, number=int(signal.SIGUSR1)):
        raise_signal(number)
        print("survived")


signal.signal(signal.SIGUSR1, lambda *_: print("handled"))
atexit.register(signal.raise_signal, signal.SIGUSR1)
kept = Noisy()
