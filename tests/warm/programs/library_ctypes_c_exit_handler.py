import ctypes
libc = ctypes.CDLL(None)
libc.strdup.restype = ctypes.c_void_p
text = ctypes.c_void_p(libc.strdup(b"C library's exit"))
libc.__cxa_atexit(ctypes.cast(libc.puts, ctypes.c_void_p), text, None)
print("end")
