import os
import sys
print("to stderr", file=sys.stderr)
os.abort()
