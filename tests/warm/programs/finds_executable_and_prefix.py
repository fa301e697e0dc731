import sys
print(sys.executable, sys._base_executable, sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix, sys.platlibdir)
print(sys.platform, sys.byteorder, sys.maxsize, sys.version, sys.hexversion, sys.implementation, sys._git, sys.api_version)
print(sys.float_info, sys.int_info, sys.hash_info, sys.thread_info, sys.abiflags, sys.copyright)
