import sys
sys.setrecursionlimit(10 ** 8)
value = []
for _ in range(10 ** 6):
    value = [value]
repr(value)
