if (n := len("abcd")) > 3:
    print(f"{n=}")
match {"kind": "point", "at": (1, 2)}:
    case {"kind": "point", "at": (x, y)} if x < y:
        print(x, y)
print([*range(3), *"ab"], {**{"a": 1}, "b": 2})
with (open("/dev/null") as a, open("/dev/null") as b):
    print(a.closed, b.closed)
