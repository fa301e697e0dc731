#: files {"package/__init__.py": "from .inner import value\n", "package/inner.py": "import package\nvalue = 5\nprint(__name__, __package__)\n", "plain.py": "import sys\nname = __name__\n"}
import package
import package.inner as inner
from plain import name
import sys
print(package.value, inner.value, name, package.__path__ == [package.__file__[:-12]], sys.dont_write_bytecode)
import os
print(sorted(os.listdir("package")))
import not_there
