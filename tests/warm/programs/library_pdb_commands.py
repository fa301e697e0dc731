#: stdin "p x + 1\nnext\ncontinue\n"
x = 41
breakpoint()
y = x
print("after", y)
