print(1, 2, sep="-", end="!\n")
print(*range(3), sep="\n")
print()
print("unicode: \u2713 \U0001f600 \x00 tab\t end")
