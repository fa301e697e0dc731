import csv
import json
import sys
print(json.dumps({"b": [1, 2.5, None, "\u00e9"], "a": float("inf")}, sort_keys=True, indent=1))
csv.writer(sys.stdout).writerows([["a", "b,c"], [1, 'quote "x"']])
print(list(csv.DictReader(["x,y", "1,2"])))
json.dumps(object())
