import subprocess
import sys
print(subprocess.run([sys.executable, "-m", "calendar", "2024", "2"], capture_output=True, text=True).stdout)
