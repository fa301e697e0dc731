"""Floods of refused system calls."""

from attack import attack
from prelude import attempts, found, syscall


@attack("PID 1 of the jail answers, at the job's own cost, and counts", {"done": "True"}, denied={"chroot": 4000}, alone=True)
def one_process():
    """Makes the same refused call thousands of times."""
    for _ in range(4000):
        try:
            os.chroot("/")
        except PermissionError:
            pass
    found("done", True)


@attack("PID 1 of the jail answers, at the job's own cost, and counts", {"done": "8"}, denied={"chroot": 4000})
def many_processes():
    """Makes refused calls from many processes at once."""
    import os
    for _ in range(8):
        if os.fork() == 0:
            for _ in range(500):
                try:
                    os.chroot("/")
                except PermissionError:
                    pass
            os._exit(0)
    found("done", sum(os.wait()[1] == 0 for _ in range(8)))


@attack("PID 1 of the jail answers, at the job's own cost, and counts", {"done": "True"}, denied={"chroot": 2000})
def many_threads():
    """Makes refused calls from many threads at once."""
    import os
    import threading

    def flood():
        for _ in range(250):
            try:
                os.chroot("/")
            except PermissionError:
                pass
    threads = [threading.Thread(target=flood) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found("done", True)


@attack("a call that a signal ends before PID 1 has seen it was not refused; all others are counted", {"refused": "[1-9][0-9]*"}, denied=["chroot"])
def with_signals():
    """Interrupts refused calls by signals, again and again."""
    import os
    import signal
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    refused = 0
    for _ in range(1000):
        try:
            os.chroot("/")
        except PermissionError:
            refused += 1
        except InterruptedError:
            pass
    signal.setitimer(signal.ITIMER_REAL, 0)
    found("refused", refused)


@with_signals.checks
def exactly(verdict):
    said = verdict["stdout"].split()[-1]
    if verdict["denied_syscalls"] != [{"name": "chroot", "count": int(said)}]:
        yield f"{said} were refused, {verdict['denied_syscalls']} counted"


@attack("the table has a fixed size; its last row counts what finds no place", {"refused": "300"}, denied=None)
def many_different():
    """Makes more different refused calls than the reply has rows for."""
    refused = 0
    for number in range(1000, 1300):
        try:
            syscall(number)
        except OSError:
            refused += 1
    found("refused", refused)


@many_different.checks
def all_counted(verdict):
    total = sum(row["count"] for row in verdict["denied_syscalls"])
    if total != 300 or len(verdict["denied_syscalls"]) > 100:
        yield f"{total} refused calls in {len(verdict['denied_syscalls'])} rows"


@attack("the kernel ends a process that waits for an answer", {"begun": "True"}, denied=["chroot"], timeout_ms=700,
        verdict={"status": "timeout", "exit_code": -1, "killed": True})
def at_the_deadline():
    """Is in the middle of a flood when its time is over."""
    import os
    for _ in range(7):
        if os.fork() == 0:
            break
    else:
        found("begun", True)
    while True:
        try:
            os.chroot("/")
        except PermissionError:
            pass


@attack("every job has a PID 1 of its own that answers", {"slow": "False"}, alone=True)
def beside_a_flood():
    """Runs while another job floods: it must not notice."""
    import time
    began = time.monotonic()
    for _ in range(1000):
        os.getppid()
    found("slow", time.monotonic() - began > 20)


@beside_a_flood.beside()
def floods():
    """Floods from several processes while it is held."""
    import os
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            while True:
                try:
                    os.chroot("/")
                except PermissionError:
                    pass
        children.append(child)
    hold()
    for child in children:
        os.kill(child, 9)


beside_a_flood.victim.denied = {"chroot": None}


@attack("a program that is killed by its policy says so", {"refused": "EPERM"}, denied={"unshare": 1, "mount": 1, "keyctl": 1})
def named_in_full():
    """Makes three different refused calls: all three are named, with their counts."""
    attempts("refused", [lambda: syscall("unshare", 0x10000000), lambda: syscall("mount", 0, 0, 0, 0, 0), lambda: syscall("keyctl", 0)])
