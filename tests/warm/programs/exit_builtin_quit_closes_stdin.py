import sys
try:
    quit("bye")
finally:
    sys.stderr.write(f"{sys.stdin.closed}\n")
