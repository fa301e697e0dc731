#: env {"PYTHONOPTIMIZE": "1"}
#: fresh
import sys
print(sys.flags.optimize, __debug__)
assert False
