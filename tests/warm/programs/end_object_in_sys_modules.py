import sys


class Module:
    def __del__(self):
        print("gone")


sys.modules["strange"] = Module()
import strange
del strange
print("end")
