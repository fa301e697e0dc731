import os
os.register_at_fork(before=lambda: print("before", flush=True), after_in_parent=lambda: print("parent"),
                    after_in_child=lambda: os.write(2, b"child"))
pid = os.fork()
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
print("end")
