import warnings
warnings.simplefilter("always")


def leave_open():
    open("/dev/null")


leave_open()
kept = open("/dev/null")
