import os
print([fd for fd in range(64) if not os.system(f"[ -e /proc/$$/fd/{fd} ]")])


def is_open(fd):
    try:
        os.fstat(fd)
        return True
    except OSError:
        return False


print([fd for fd in range(256) if is_open(fd)])
