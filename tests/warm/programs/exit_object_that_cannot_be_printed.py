import sys


class Why:
    def __str__(self):
        raise ValueError("no words")


sys.exit(Why())
