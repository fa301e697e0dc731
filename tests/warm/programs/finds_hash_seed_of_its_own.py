#: env {"PYTHONHASHSEED": "7"}
#: fresh
import sys
print(hash("text"), sys.flags.hash_randomization, {"a", "b", "c"})
