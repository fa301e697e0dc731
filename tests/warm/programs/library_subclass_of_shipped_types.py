import collections
import json


class Encoder(json.JSONEncoder):
    def default(self, value):
        return sorted(value)


class Bag(collections.UserDict):
    def __missing__(self, key):
        return key.upper()


print(json.dumps({"s": {3, 1, 2}}, cls=Encoder), Bag()["x"], len(Encoder.__mro__), Bag.__subclasses__())
json.JSONEncoder.default = lambda self, value: "patched"
print(json.dumps(object()))
