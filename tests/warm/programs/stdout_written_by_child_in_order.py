import os
import subprocess
print("before", flush=True)
subprocess.run(["echo", "child"])
os.system("echo system")
print("after")
