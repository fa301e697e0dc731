import ctypes
import ctypes.util
libc = ctypes.CDLL(None)
print(libc.abs(-5), libc.strlen(b"abcd"), ctypes.sizeof(ctypes.c_long))
callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
values = (ctypes.c_int * 3)(3, 1, 2)
libc.qsort(values, 3, 4, callback(lambda a, b: a[0] - b[0]))
print(list(values))
print(ctypes.pythonapi.Py_IsInitialized())
