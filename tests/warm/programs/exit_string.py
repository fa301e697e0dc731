import sys
print("out", end="")
sys.exit("said at the end")
