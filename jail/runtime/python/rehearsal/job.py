# What short programs do. A template runs it, and watches where it writes (pages.c). Imports nothing that is not there.
import sys


def call(a, b=1, *rest, **named):
    return [n + a for n in range(b)] + sorted(rest) + list(named.items())


def work():
    values = call(1, 3, 2.5, name="text")
    text = f"{values[0]:>4} {len(values)}" + ", ".join(map(str, values)) + "%s %d" % ("x", 1) + "{}".format(True)
    print(text.split(), {"a": (1, None)}, {1, 2}, b"x", 0.1, -1, sep=" ", end="\n")
    try:
        {}["missing"]
    except KeyError as error:
        str(error)
    for index, (key, value) in enumerate({"k": [1]}.items()):
        text = f"{index}{key!r}{value}"


work()
sys.stdout.flush()
if "json" in sys.modules:
    import json
    json.dumps(json.loads('{"a": [1, 2.5, "x", true]}'), indent=None)
if "re" in sys.modules:
    import re
    re.findall(r"(\w+)|[a-z]*\d", "word 12")
    re.purge()
if "collections" in sys.modules:
    import collections
    collections.Counter("ab").most_common(1) if "heapq" in sys.modules else None
    collections.defaultdict(list)["x"].append(1)
if "statistics" in sys.modules:
    import statistics
    statistics.mean([1, 2, 3])
if "math" in sys.modules:
    import math
    math.sqrt(2)
