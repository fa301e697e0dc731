#: stdin "a\nb\nc"
import sys
for number, line in enumerate(sys.stdin, 1):
    print(number, repr(line))
