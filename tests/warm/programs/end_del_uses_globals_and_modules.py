import json
import os
import sys


class Noisy:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        print(self.name, json, os.sep if os else None, sys, Noisy, helper)


def helper():
    return "helped"


one = Noisy("one")
keeper = [Noisy("two")]
keeper.append(keeper)
print("end")
