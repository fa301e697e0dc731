import sys


def hook(kind, value, traceback):
    raise TypeError("the hook")


sys.excepthook = hook
raise ValueError("original")
