import os
import sys
here = os.path.dirname(os.path.realpath(__file__))
print([entry.replace(here, "HERE") for entry in sys.path])
