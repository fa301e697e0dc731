#: files {"module.py": "value = 1\nprint('imported', __name__)\n"}
import importlib
import importlib.util
import sys
module = importlib.import_module("module")
with open("module.py", "a") as file:
    file.write("value = 2  # longer than before\n")
print(importlib.reload(module).value, module.__spec__.origin == module.__file__, module.__spec__.name)
spec = importlib.util.spec_from_file_location("again", "module.py")
again = importlib.util.module_from_spec(spec)
spec.loader.exec_module(again)
print(again.value, "again" in sys.modules, importlib.util.find_spec("nothing_of_that_name"))
print(importlib.reload(importlib.import_module("json")).dumps([1]))
