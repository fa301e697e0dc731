#: files {"one.py": "import base\nkept = base.Noisy('one')\n_private = base.Noisy('one private')\n", "two.py": "import base\nimport one\nkept = base.Noisy('two')\ndef f(): pass\n", "base.py": "class Noisy:\n    def __init__(self, name):\n        self.name = name\n    def __del__(self):\n        print('gone', self.name)\n"}
import two
import one
from base import Noisy
mine = Noisy("main")
print("end")
