"""Outliving one's end: daemons, orphans, processes that will not die; signals to PID 1; ends that look like others."""

import os

from attack import attack
from prelude import attempt, attempts, found, syscall

NAMESPACE = "when PID 1 ends, the kernel ends every process of its PID namespace"
TIMEOUT = {"status": "timeout", "exit_code": -1, "killed": True}


@attack(NAMESPACE, {"started": "True"})
def daemon():
    """Leaves a daemon behind: two forks, a session of its own, descriptors closed."""
    import time
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 64)
            time.sleep(1000)
        os._exit(0)
    os.waitpid(child, 0)
    found("started", True)


@attack(NAMESPACE, {"children": "20"})
def orphans_that_hold_the_output():
    """Leaves children that keep the pipes open, so that nobody ever sees their end."""
    import time
    for number in range(20):
        if os.fork() == 0:
            os.setpgid(0, 0)
            time.sleep(1000)
    found("children", number + 1)


@attack(NAMESPACE, {"begun": "True"}, verdict=TIMEOUT, timeout_ms=500)
def deaf_to_all_signals():
    """Ignores every signal that can be ignored and blocks the rest, and so do its children, past the deadline."""
    import signal
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
    for _ in range(8):
        os.fork() if os.getppid() == 1 else None
    if os.getppid() == 1:
        found("begun", True)
    while True:
        signal.pause()


@attack(NAMESPACE, {"begun": "True"}, verdict=TIMEOUT, timeout_ms=500)
def stopped():
    """Stops itself and all of its children, so that nobody is there to hear of the deadline."""
    import signal
    found("begun", True)
    for _ in range(5):
        if os.fork() == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
            os._exit(0)
    os.kill(os.getpid(), signal.SIGSTOP)


@attack(NAMESPACE, {"begun": "True"}, verdict=TIMEOUT, timeout_ms=500)
def waiting_for_vfork():
    """Waits, where only a fatal signal wakes it, for a child of vfork that has stopped."""
    libc = ctypes.CDLL(None)
    found("begun", True)
    # clone(CLONE_VM | CLONE_VFORK) on the same stack; the child stops for ever in pause().
    if libc.syscall(56, 0x4100 | 17, 0, 0, 0, 0) == 0:
        while True:
            libc.syscall(34)


@attack(NAMESPACE, {"begun": "True"}, verdict=TIMEOUT, timeout_ms=500)
def stuck_in_a_pipe():
    """Blocks in system calls of many kinds: a full pipe, a FIFO without a reader, a lock that is held, a futex."""
    import fcntl
    import threading
    os.mkfifo("fifo")
    held = open("lock", "w")
    fcntl.flock(held, fcntl.LOCK_EX)
    one, two = os.pipe()
    for what in (lambda: os.open("fifo", os.O_WRONLY), lambda: fcntl.flock(open("lock"), fcntl.LOCK_EX), lambda: os.write(two, bytes(1 << 20)),
                 lambda: os.read(one, 0) or os.waitpid(-1, 0)):
        threading.Thread(target=what).start()
    found("begun", True)
    threading.Event().wait()


@attack(NAMESPACE, {"begun": "True"}, verdict=TIMEOUT, timeout_ms=500)
def processes_that_make_processes():
    """Forks and ends as fast as it can: whoever counts or ends its processes one by one never gets them all."""
    import signal
    found("begun", True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        try:
            if os.fork():
                os._exit(0) if os.getppid() != 1 else None
        except OSError:
            pass


@attack("Landlock keeps signals among the program's own; PID 1 has no handler for any, so that the kernel drops those from inside",
        {"signals": "EPERM|done", "everybody": "ESRCH", "pidfd": "EPERM|done", "alive": "True"})
def signals_to_init():
    """Sends every signal to PID 1, by every call."""
    attempts("signals", [lambda number=number: os.kill(1, number) for number in range(1, 65)])
    attempt("everybody", lambda: os.kill(-1, 0))
    import signal
    pidfd = os.pidfd_open(1)
    attempts("pidfd", [lambda number=number: signal.pidfd_send_signal(pidfd, number) for number in range(1, 65) if number not in (32, 33)])
    found("alive", os.getppid() == 1)


@attack("PID 1 reads the clock and the program's status, and nothing that the program can say", {"alone": "True"},
        verdict={"status": "execution_error", "exit_code": 137, "signal": "SIGKILL", "killed": False, "oom": False})
def ends_everybody():
    """Ends all processes that it can, itself last, so that it looks as if somebody else had."""
    import signal
    for _ in range(5):
        if os.fork() == 0:
            signal.pause()
    found("alone", True)
    os.kill(-1, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


@attack("the kernel's word on memory, not the signal, makes an oom", {},
        verdict={"status": "execution_error", "exit_code": 137, "signal": "SIGKILL", "killed": False, "oom": False})
def looks_like_out_of_memory():
    """Ends as the kernel ends who has no memory left."""
    os.kill(os.getpid(), 9)


@attack("an exit code is not a signal", {}, verdict={"status": "execution_error", "exit_code": 137, "signal": None, "oom": False})
def looks_like_a_signal():
    """Exits with the code that a shell gives a killed program."""
    os._exit(137)


@attack("the deadline is the warden's own clock", {}, verdict={"status": "execution_error", "exit_code": 255, "killed": False})
def looks_like_a_timeout():
    """Exits with -1, as a job whose time is over."""
    os._exit(-1)


@attack("only the kernel sets the core bit, and it is not reported",
        {"signals": "SIGSEGV SIGABRT SIGSYS SIGTRAP SIGXCPU SIGQUIT"}, denied=())
def ends_of_children():
    """Has children end by every signal that dumps core."""
    import signal
    names = []
    for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGSYS, signal.SIGTRAP, signal.SIGXCPU, signal.SIGQUIT):
        child = os.fork()
        if child == 0:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        status = os.waitpid(child, 0)[1]
        names.append(signal.Signals(os.WTERMSIG(status)).name + ("+core" if os.WCOREDUMP(status) else ""))
    found("signals", " ".join(names))


@attack("PID 1 keeps its place, and the deadline is the parent's", {"begun": "True", "init": "EPERM"}, verdict=TIMEOUT, timeout_ms=500,
        denied={"sched_setaffinity": 1, "sched_setscheduler": 1}, alone=True)
def starves_init():
    """Puts PID 1 last in line for the CPU and crowds it out, so that its end comes late."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    attempts("init", [lambda: os.sched_setaffinity(1, {min(os.sched_getaffinity(0))}),
                      lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0))])
    found("begun", True)
    for _ in range(40):
        if os.fork() == 0:
            break
    while True:
        pass


@attack(NAMESPACE, {"begun": "True"}, verdict=TIMEOUT, timeout_ms=500)
def output_closed():
    """Closes its output and goes on."""
    import time
    found("begun", True)
    os.closerange(0, 3)
    time.sleep(1000)


@attack("the subreaper of a jail is PID 1", {"reaper": "done", "orphans": "True"})
def reaper():
    """Becomes the reaper of its descendants, so that PID 1 does not see them end."""
    import time
    attempt("reaper", syscall, "prctl", 36, 1, 0, 0, 0)
    child = os.fork()
    if child == 0:
        if os.fork() == 0:
            time.sleep(1000)
        os._exit(0)
    os.waitpid(child, 0)
    found("orphans", os.waitpid(-1, os.WNOHANG) == (0, 0))


@attack("the deadline is wall-clock time of the warden's", {"begun": "True"}, verdict=TIMEOUT, timeout_ms=500)
def asleep():
    """Sleeps, using nothing that could run out."""
    import time
    found("begun", True)
    time.sleep(1000)
