#: args ["raw \udcff byte"]
import os
import sys
print(ascii(sys.argv[1]), os.fsencode(sys.argv[1]))
