import sys
sys.stdout.reconfigure(encoding="ascii", errors="backslashreplace", line_buffering=True)
print("gr\u00fc\u00df")
sys.stdout.reconfigure(encoding="utf-16-le")
print("x")
