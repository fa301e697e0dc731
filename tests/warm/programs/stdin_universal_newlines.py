#: stdin "a\r\nb\rc\n"
import sys
print(repr(sys.stdin.read()), sys.stdin.newlines)
