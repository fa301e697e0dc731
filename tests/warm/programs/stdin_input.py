#: stdin "first\nsecond\n"
print(repr(input()))
print(repr(input("prompt> ")))
