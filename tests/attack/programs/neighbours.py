"""Two jobs that run at once and see each other in any way."""

import os

from attack import attack
from prelude import GIVEN, attempt, attempts, found, hold, loot, refused, syscall

SCRATCH = "every job has a scratch of its own, which is gone with it"
PIDS = "every job has a PID namespace of its own"


@attack("abstract names belong to a network namespace", {"connect": "ECONNREFUSED", "send": "ECONNREFUSED"}, outside=True)
def abstract_socket():
    """Connects to the other's abstract socket."""
    import socket
    attempt("connect", lambda: socket.socket(socket.AF_UNIX).connect("\0attack-neighbour"))
    attempt("send", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", "\0attack-neighbour-dgram"))


@abstract_socket.beside(came="False")
def listens():
    """Listens on abstract sockets."""
    import select
    import socket
    stream, datagram = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    stream.bind("\0attack-neighbour")
    stream.listen()
    datagram.bind("\0attack-neighbour-dgram")
    hold()
    found("came", bool(select.select([stream, datagram], [], [], 0)[0]))


@attack("a network namespace each", {"connect": "ENETUNREACH", "bind": "done"}, outside=True)
def tcp_port():
    """Connects to the other's port, and takes the same one."""
    import socket
    attempt("connect", lambda: socket.create_connection(("127.0.0.1", 17113), 5))
    attempt("bind", lambda: socket.create_server(("127.0.0.1", 17113)))


@tcp_port.beside(came="False")
def serves():
    """Listens on a port."""
    import select
    import socket
    one = socket.create_server(("127.0.0.1", 17113))
    hold()
    found("came", bool(select.select([one], [], [], 0)[0]))


@attack(SCRATCH, {"workspace": r"\[\]", "tmp": r"\[\]", "shm": r"\[\]", "read": "ENOENT"})
def files():
    """Reads what the other has written to the workspace, /tmp and /dev/shm."""
    for what, directory in (("workspace", "/workspace"), ("tmp", "/tmp"), ("shm", "/dev/shm")):
        found(what, os.listdir(directory))
    loot("read", "/tmp/secret")


@files.beside(still="True True True")
def writes():
    """Writes its secret everywhere."""
    places = ("/workspace/secret", "/tmp/secret", "/dev/shm/secret")
    for place in places:
        with open(place, "w") as file:
            file.write(os.environ["NEIGHBOUR_SECRET"])
        os.chmod(place, 0o666)
    hold()
    found("still", " ".join(str(open(place).read() == os.environ["NEIGHBOUR_SECRET"]) for place in places))


@attack(SCRATCH, {"attach": "ENOENT", "semaphore": "ENOENT"}, outside=True)
def posix_shared_memory():
    """Attaches the other's shared memory, and takes its semaphore."""
    from multiprocessing import shared_memory
    attempt("attach", lambda: shared_memory.SharedMemory(GIVEN["abstract"]))
    libc = ctypes.CDLL(None, use_errno=True)

    def semaphore():
        libc.sem_open.restype = ctypes.c_void_p
        if libc.sem_open(GIVEN["abstract"].encode(), 0) is None:
            raise OSError(ctypes.get_errno(), "sem_open")
    attempt("semaphore", semaphore)


@posix_shared_memory.beside(content="True")
def shares():
    """Makes shared memory with a secret in it, and a semaphore."""
    from multiprocessing import shared_memory
    memory = shared_memory.SharedMemory(GIVEN["abstract"], create=True, size=4096)
    libc = ctypes.CDLL(None)
    libc.sem_open(GIVEN["abstract"].encode(), os.O_CREAT, 0o666, 1)
    memory.buf[:32] = os.environ["NEIGHBOUR_SECRET"].encode()
    hold()
    found("content", bytes(memory.buf[:32]).decode() == os.environ["NEIGHBOUR_SECRET"])
    libc.sem_unlink(GIVEN["abstract"].encode())
    memory.close()
    memory.unlink()


@attack("System V calls are refused, and an IPC namespace each", {"shmget": "EPERM", "shmat": "EPERM", "semget": "EPERM", "msgget": "EPERM"},
        denied=["shmget", "shmat", "semget", "msgget"], outside=True)
def system_v():
    """Finds segments, semaphores and queues by guessed keys and numbers, those of the host among them."""
    attempts("shmget", [lambda key=key: syscall("shmget", key, 0, 0) for key in (1, 2, 3, GIVEN["ipc_key"])])
    attempts("shmat", [lambda number=number: syscall("shmat", number, 0, 0o10000) for number in (*range(8), GIVEN["ipc_id"])])
    refused(("semget", 1, 0, 0), ("msgget", 1, 0))


@attack(PIDS, {"seen": r"\[\]", "environ": "ENOENT", "kill": "ESRCH", "pidfd": "ESRCH|EINVAL"})
def processes():
    """Lists the other's processes, reads their environment and memory, and ends them."""
    own = {os.getpid(), os.getppid()}
    seen = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) not in own]
    found("seen", seen)
    numbers = [pid for pid in range(2, 300) if pid not in own]
    attempts("environ", [lambda pid=pid: open(f"/proc/{pid}/environ").read() for pid in numbers])
    attempts("kill", [lambda pid=pid: os.kill(pid, 9) for pid in numbers])
    attempts("pidfd", [lambda pid=pid: os.pidfd_open(pid) for pid in numbers])


@processes.beside(alive="True")
def lives():
    """Has a child, whose end it would notice, apart from the one that is waited for."""
    child = os.fork()
    if child == 0:
        os.execv("/usr/bin/sleep", ["neighbour", "100"])
    hold()
    found("alive", os.waitpid(child, os.WNOHANG) == (0, 0))


@attack(PIDS, {"all": "ESRCH|done", "group": "done|EPERM|ESRCH", "session": "ESRCH"})
def signals():
    """Sends a signal to everything that it may send one to."""
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    attempt("all", os.kill, -1, signal.SIGTERM)
    attempt("group", os.killpg, os.getpgrp(), signal.SIGTERM)
    attempts("session", [lambda group=group: os.killpg(group, signal.SIGTERM) for group in range(3, 100)])


@signals.beside(signals="0")
def counts():
    """Counts signals."""
    import signal
    got = []
    signal.signal(signal.SIGTERM, lambda *_: got.append(1))
    hold()
    found("signals", len(got))


@attack("PID 1 and the program are another job's to nobody; ids and limits are counted per user namespace", {"children": "40"})
def process_limit():
    """Uses up the processes of the outer user, so that the other cannot start one."""
    import signal
    started = 0
    for _ in range(40):
        if os.fork() == 0:
            signal.pause()
        started += 1
    found("children", started)


@process_limit.beside(children="40")
def starts():
    """Starts as many itself."""
    import signal
    for number in range(40):
        if os.fork() == 0:
            signal.pause()
    hold()
    found("children", number + 1)


@attack(SCRATCH, {"left": r"\[\] \[\] \[\]", "variables": r"\[\]"})
def what_a_job_before_has_left():
    """Looks for what a job that has ended left in files, variables and modules."""
    import sys
    found("left", " ".join(str(os.listdir(place)) for place in ("/workspace", "/tmp", "/dev/shm")))
    found("variables", [name for name in (*os.environ, *sys.modules, *vars(os), *vars(sys)) if "left_by" in name])
    for place in ("/workspace", "/tmp", "/dev/shm"):
        open(place + "/left_by_a_job_before", "w").close()
    os.environ["left_by_a_job_before"] = sys.modules["left_by_a_job_before"] = os.left_by_a_job_before = "1"


@what_a_job_before_has_left.beside()
def leaves():
    """Leaves everything behind."""
    import sys
    for place in ("/workspace", "/tmp", "/dev/shm"):
        open(place + "/left_by_a_job_before", "w").close()
    os.environ["left_by_a_job_before"] = sys.modules["left_by_a_job_before"] = os.left_by_a_job_before = "1"
    hold()


@attack("files that are written to are another's to nobody", {"locked": "done", "record": "done"}, outside=False)
def locks():
    """Finds locks of the other's on its files."""
    import fcntl
    with open("/tmp/lock", "w") as file:
        attempt("locked", fcntl.flock, file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        attempt("record", fcntl.lockf, file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@locks.beside(locked="done")
def takes_locks():
    """Locks a file in /tmp."""
    import fcntl
    with open("/tmp/lock", "w") as file:
        attempt("locked", fcntl.flock, file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        hold()


@attack("nothing: documented, not blocked", {"locked": "EAGAIN"}, in_image={"locked": "done"})
def channel_by_locks():
    """Hears from another job that wants to be heard: both can lock the same read-only program of the host. In an image each has
    files of its own overlay."""
    import fcntl
    with open("/usr/bin/env") as file:
        attempt("locked", fcntl.flock, file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@channel_by_locks.beside(locked="done")
def speaks():
    """Says one bit."""
    import fcntl
    with open("/usr/bin/env") as file:
        attempt("locked", fcntl.flock, file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        hold()


@attack("nothing: documented, not blocked", {"counted": "True"})
def channel_by_time():
    """Counts how far it gets in a while: less, when another job computes on the same CPU."""
    import time
    count, end = 1, time.monotonic() + 0.02
    while time.monotonic() < end:  # not even once, where it has lost the CPU already
        count += 1
    found("counted", count > 0)


@attack("the audit of file accesses is refused; mincore tells of files that the caller owns alone", {"mincore": "ones"})
def page_cache():
    """Learns which pages of a library are in memory, so what the other has run."""
    import mmap
    with open("/usr/bin/env", "rb") as file:
        memory = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
    size = len(memory) // 4096
    vector = ctypes.create_string_buffer(size)
    place = ctypes.c_char.from_buffer(memory)
    syscall(27, ctypes.addressof(place), size * 4096, vector)
    found("mincore", "ones" if set(vector.raw) == {1} else vector.raw.hex())
