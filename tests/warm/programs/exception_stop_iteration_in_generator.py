def numbers():
    yield 1
    raise StopIteration


list(numbers())
