import sys
deepest = 0


def down(n):
    global deepest
    deepest = n
    down(n + 1)


try:
    down(1)
except RecursionError as error:
    print(deepest, error)
print(sys.getrecursionlimit())
