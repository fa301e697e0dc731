import os
import sys
print("before", flush=True)
pid = os.fork()
if pid == 0:
    print("child", os.getppid() != 0)
    sys.exit(3)
_, status = os.waitpid(pid, 0)
print("parent", os.waitstatus_to_exitcode(status))
