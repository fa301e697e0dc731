#: files {"leaves.py": "import sys\nprint('leaving')\nsys.exit(12)\n"}
import leaves
print("never", leaves)
