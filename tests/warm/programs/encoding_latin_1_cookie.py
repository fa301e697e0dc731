# coding: latin-1
print("éü", ascii("é"))
