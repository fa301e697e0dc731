name = 1
print(f"{name!z}")
