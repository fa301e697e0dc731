objects = [{"n": n, "text": str(n) * 3, "list": [n, (n,)]} for n in range(50000)]
print(len(objects), sum(o["n"] for o in objects))
del objects[::2]
print(len(objects))
