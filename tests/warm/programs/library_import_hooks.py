import importlib.abc
import importlib.machinery
import sys


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name == "invented" else None

    def exec_module(self, module):
        module.value = "invented"


sys.meta_path.insert(0, Finder())
import invented
print(invented.value, invented.__spec__.loader is sys.meta_path[0])
