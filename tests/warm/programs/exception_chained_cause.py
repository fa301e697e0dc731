try:
    int("x")
except ValueError as error:
    raise RuntimeError("while reading") from error
