import subprocess
import sys
code = "import sys; print(sys.argv, sys.flags.no_user_site, sys.path[0] == ''); sys.exit(4)"
done = subprocess.run([sys.executable, "-c", code, "x"], capture_output=True, text=True)
print(done.returncode, done.stdout, done.stderr)
