class Noisy:
    def __del__(self):
        import sys
        import os
        import json
        print("imported", sys.__name__, os.__name__, json.__name__)


def unused():
    pass


kept = Noisy()
print("end")
