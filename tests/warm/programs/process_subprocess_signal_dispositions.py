import subprocess
print(subprocess.run(["grep", "SigIgn", "/proc/self/status"], capture_output=True, text=True).stdout)
print(subprocess.run(["grep", "SigIgn", "/proc/self/status"], capture_output=True, text=True, restore_signals=False).stdout)
