#: files {"noisy.py": "class Noisy:\n    def __init__(self, name):\n        self.name = name\n    def __del__(self):\n        print('gone', self.name, __name__)\nkept = Noisy('in the module')\n"}
import noisy
mine = noisy.Noisy("in main")
print("end")
