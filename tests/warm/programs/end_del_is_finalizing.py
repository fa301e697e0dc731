import atexit
import sys


class Noisy:
    def __del__(self, is_finalizing=sys.is_finalizing):
        print("finalizing", is_finalizing())


kept = Noisy()
atexit.register(lambda: print("atexit", sys.is_finalizing()))
