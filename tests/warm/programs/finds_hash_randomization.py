import subprocess
import sys
print(hash("x") == hash("x"), sys.flags.hash_randomization, hash(1), hash(2.5), hash((1, 2)), hash(None) == hash(None))
