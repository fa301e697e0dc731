import ctypes
import faulthandler
faulthandler.enable()


def crash():
    ctypes.string_at(0)


crash()
