def add(*values):
    return sum(values)


add(1,
    2,
    "three")
