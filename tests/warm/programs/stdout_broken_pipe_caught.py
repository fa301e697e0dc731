import os
import sys
read, write = os.pipe()
os.dup2(write, 1)
os.close(read)
try:
    print("x" * 100000, flush=True)
except BrokenPipeError as error:
    print(error, file=sys.stderr)
