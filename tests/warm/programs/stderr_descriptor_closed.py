import os
import sys
os.close(2)
sys.stderr.write("lost")
1 / 0
