import sys


def hook(kind, value, traceback):
    print("leaving")
    sys.exit(21)


sys.excepthook = hook
raise ValueError("original")
