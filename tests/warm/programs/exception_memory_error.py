try:
    bytearray(1 << 60)
except MemoryError as error:
    print(repr(error))
"x" * (1 << 62)
