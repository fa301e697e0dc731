#: stdin "for the child\nrest\n"
import subprocess
print(subprocess.run(["cat"], stdout=subprocess.PIPE).stdout)
