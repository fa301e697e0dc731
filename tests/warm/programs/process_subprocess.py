import subprocess
print(subprocess.check_output(["sh", "-c", "cat; echo $0"], input=b"given\n"))
print(subprocess.run("exit 5", shell=True).returncode, subprocess.run(["sh", "-c", "kill -9 $$"]).returncode)
try:
    subprocess.run(["false"], check=True)
except subprocess.CalledProcessError as error:
    print(error)
try:
    subprocess.run(["/nonexistent"])
except FileNotFoundError as error:
    print(error)
try:
    subprocess.run(["sleep", "10"], timeout=0.05)
except subprocess.TimeoutExpired as error:
    print(error.cmd)
