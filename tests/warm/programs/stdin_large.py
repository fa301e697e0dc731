#: stdin-repeated "0123456789\n" 20000
import sys
lines = sys.stdin.readlines()
print(len(lines), sum(map(len, lines)), len(set(lines)))
