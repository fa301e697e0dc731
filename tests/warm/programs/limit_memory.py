import resource
resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))
try:
    kept = bytearray(1 << 30)
except MemoryError:
    print("no memory")
