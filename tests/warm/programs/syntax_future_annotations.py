from __future__ import annotations


def f(x: Missing) -> Other:
    return x


print(f.__annotations__, f(1))
value: Undefined = 3
print(__annotations__)
