import os
import sys
read, write = os.pipe()
os.dup2(write, 1)
os.close(write)
os.close(read)
print("nobody reads")
