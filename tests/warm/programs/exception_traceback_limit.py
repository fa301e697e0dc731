import sys
sys.tracebacklimit = 1


def inner():
    raise ValueError("short")


def outer():
    inner()


outer()
