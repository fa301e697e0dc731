import os
import sys
print(__name__, os.path.basename(__file__), __file__ == sys.argv[0], __spec__, __package__, __doc__, __cached__)
print(type(__loader__).__name__, __loader__.name, __loader__.path == __file__, __builtins__)
