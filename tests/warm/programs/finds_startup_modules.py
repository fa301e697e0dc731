import sys
at_start = ["sys", "builtins", "_frozen_importlib", "_imp", "_thread", "_warnings", "_weakref", "_io", "marshal", "posix",
            "_frozen_importlib_external", "time", "zipimport", "_codecs", "codecs", "encodings.aliases", "encodings",
            "encodings.utf_8", "_signal", "_abc", "abc", "io", "__main__", "_stat", "stat", "_collections_abc", "genericpath",
            "posixpath", "os.path", "os", "_sitebuiltins"]
print([name for name in at_start if name not in sys.modules])
print(list(sys.modules)[:len(at_start)] == at_start)
