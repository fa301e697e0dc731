import sys
sys.stdout.close()
print("nobody hears")
