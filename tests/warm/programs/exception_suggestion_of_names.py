longer_name = 1
print(longer_nam)
