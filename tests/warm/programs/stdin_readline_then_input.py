#: stdin "1\n2\n3\n"
import sys
print(repr(sys.stdin.readline()), repr(input()), repr(sys.stdin.read()), repr(sys.stdin.read()))
