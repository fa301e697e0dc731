#: merged
import os
import sys
print("out 1")
print("err 1", file=sys.stderr)
os.write(1, b"written\n")
print("out 2", end="")
sys.stderr.write("err 2")
sys.stderr.write(" and more\n")
sys.stdout.flush()
os.write(2, b"written too\n")
print("out 3")
