#: args ["first"]
import os
import sys
if len(sys.argv) > 1:
    print("first run", flush=True)
    os.execv(sys.executable, [sys.executable, __file__])
print("second run", sys.argv[1:])
