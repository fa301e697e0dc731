print("fine")
print("lone \udcff")
