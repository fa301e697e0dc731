text = "abc
print(text)
