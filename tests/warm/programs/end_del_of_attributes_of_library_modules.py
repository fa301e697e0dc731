import json
import math
import os


class Noisy:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        print("gone", self.name)


json.kept = Noisy("on json")
math.kept = Noisy("on math")
os.kept = Noisy("on os")
print("end")
