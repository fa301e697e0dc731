import sys


class Noisy:
    def __del__(self):
        print("gone")


kept = Noisy()
del sys.modules["__main__"]
print("end")
