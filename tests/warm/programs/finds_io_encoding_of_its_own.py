#: env {"PYTHONIOENCODING": "ascii:replace"}
#: fresh
print("gr\u00fcn")
