import sys


class Noisy:
    def __del__(self):
        1 / 0


sys.unraisablehook = lambda info: print("unraisable", info.exc_type.__name__, info.err_msg)
Noisy()
