import io
import sys
kept = sys.stdout
sys.stdout = io.StringIO()
print("captured")
text = sys.stdout.getvalue()
sys.stdout = kept
print(repr(text))
sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding="latin-1", newline="\r\n")
print("wrapped \u00e9")
