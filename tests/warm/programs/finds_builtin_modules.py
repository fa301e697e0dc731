import sys
print(sys.builtin_module_names)
print(len(sys.stdlib_module_names))
