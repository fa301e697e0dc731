import ctypes
libc = ctypes.CDLL(None)
print("python first", flush=True)
libc.puts(b"from the C library")
print("python second")
