import warnings
print("\d")
