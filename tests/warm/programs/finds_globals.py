print(sorted(globals()))
print(list(globals())[:5], list(globals())[-2:])
print(globals() is vars(__import__("__main__")), __annotations__)
