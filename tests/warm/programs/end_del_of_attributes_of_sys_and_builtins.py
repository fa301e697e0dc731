import builtins
import sys


class Noisy:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        print("gone", self.name)


sys.kept = Noisy("on sys")
builtins.kept = Noisy("on builtins")
builtins._ = Noisy("the last value")
sys.ps1 = Noisy("prompt")
print("end")
