text = """abc
print(text)
