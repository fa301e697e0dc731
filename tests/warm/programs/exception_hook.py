import sys


def hook(kind, value, traceback):
    print("hooked", kind.__name__, value, traceback.tb_lineno)


sys.excepthook = hook
raise ValueError("seen")
