import sys


class Why:
    def __str__(self):
        return "an object's own words"


sys.exit(Why())
