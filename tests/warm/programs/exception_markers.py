data = {"a": {"b": None}}
print((data["a"]["b"]["c"] + 1) * 2)
