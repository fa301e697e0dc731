import sys


class Noisy:
    def __del__(self, sys=sys):
        print(sys.path, sys.argv, sys.meta_path, type(sys.modules).__name__, sys.modules.get("sys"))


kept = Noisy()
