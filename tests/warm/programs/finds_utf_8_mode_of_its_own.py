#: env {"PYTHONUTF8": "1", "LC_ALL": "POSIX"}
#: fresh
import os
import sys
print(sys.flags.utf8_mode, sys.stdout.encoding, dict(os.environ).get("LC_CTYPE"))
