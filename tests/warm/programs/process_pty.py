import os
import pty
pid, master = pty.fork()
if pid == 0:
    os.write(1, f"{os.isatty(0)}".encode())
    os._exit(0)
print(os.read(master, 100))
os.waitpid(pid, 0)
