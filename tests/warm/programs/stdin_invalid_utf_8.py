#: stdin-hex "61ff620a"
import sys
print(ascii(sys.stdin.read()))
