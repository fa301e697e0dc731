#: files {"sitecustomize.py": "print('customized')\n"}
#: fresh
print("program")
