import sys
print(sys.meta_path)
print([getattr(hook, "__name__", hook) for hook in sys.path_hooks])
print(sys.path_importer_cache[__file__])
