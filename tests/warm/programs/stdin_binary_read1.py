#: stdin "bytes \u00e9\n"
import sys
print(sys.stdin.buffer.read1(3), sys.stdin.buffer.readline(), sys.stdin.buffer.read())
