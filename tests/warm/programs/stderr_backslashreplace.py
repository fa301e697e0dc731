import sys
sys.stderr.write("lone \udcff and \u00e9\n")
