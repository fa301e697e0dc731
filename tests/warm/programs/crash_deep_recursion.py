import sys
sys.setrecursionlimit(10 ** 9)


class Deep:
    def __getattr__(self, name):
        return getattr(self, name + "x")


Deep().x
