#: files {"json/__init__.py": "loads = 'not the library'\n"}
#: fresh
import json
print(json.loads)
