import sys
sys.exit("gr\u00fc\u00dfe \udcff")
