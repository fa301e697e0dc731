"""Using up processes, threads, memory, files, descriptors, pipes, output, CPU."""

import os
from pathlib import Path

from attack import attack
from prelude import attempt, attempts, found, syscall

MIB = 1 << 20
MAPPINGS = int(Path("/proc/sys/vm/max_map_count").read_text())  # some hosts allow more than this program can make
PIDS = "pids.max, and RLIMIT_NPROC of a user namespace of the job's own"
MEMORY = "memory.max; without a cgroup RLIMIT_AS and the watch"
OOM = {"status": "oom", "oom": True, "exit_code": 137, "signal": "SIGKILL", "killed": False}


@attack(PIDS, {"begun": "True"}, verdict={"status": "timeout", "exit_code": -1, "killed": True}, limits={"pids": 16}, timeout_ms=400)
def fork_bomb():
    """Forks for ever, in every child."""
    found("begun", True)
    while True:
        try:
            os.fork()
        except OSError:
            pass


@attack(PIDS, {"children": "1[0-9]", "error": "EAGAIN"}, limits={"pids": 16})
def processes():
    """Starts as many processes as it can, and counts."""
    import signal
    children = 0
    try:
        while True:
            if os.fork() == 0:
                signal.pause()
            children += 1
    except OSError as error:
        found("children", children)
        found("error", errno.errorcode[error.errno])


@attack(PIDS, {"threads": "1[0-9]"}, limits={"pids": 16})
def threads():
    """Starts as many threads as it can."""
    import threading
    wait, started = threading.Event(), 0
    try:
        for _ in range(100):
            threading.Thread(target=wait.wait, daemon=True).start()
            started += 1
    except RuntimeError:
        pass
    found("threads", started)
    wait.set()


@attack(MEMORY, None, verdict=OOM, limits={"memory_bytes": 48 * MIB}, alone=True)
def memory():
    """Allocates for ever."""
    blocks = []
    while True:
        blocks.append(b"x" * (1 << 20))


@attack(MEMORY, None, verdict=OOM, limits={"memory_bytes": 48 * MIB}, alone=True)
def memory_of_children():
    """Has many children that allocate a little each."""
    import signal
    for _ in range(20):
        if os.fork() == 0:
            block = b"x" * (8 << 20)
            signal.pause()
    block = b"x" * (8 << 20)
    signal.pause()
    print(len(block))


@attack(MEMORY, None, verdict=OOM, limits={"memory_bytes": 48 * MIB}, alone=True)
def shared_memory():
    """Allocates memory that is shared between processes, which no single one's size shows."""
    import mmap
    blocks = []
    while True:
        blocks.append(mmap.mmap(-1, 4 << 20))
        blocks[-1].write(b"x" * (4 << 20))


@attack("the scratch's pages are the job's memory", None, verdict=OOM, limits={"memory_bytes": 32 * MIB}, alone=True)
def memory_in_files():
    """Fills its scratch with more than it has memory."""
    with open("/tmp/x", "wb") as file:
        for _ in range(60):
            file.write(bytes(1 << 20))
    import time
    time.sleep(100)


@attack("the scratch has a size", {"write": "ENOSPC", "other": "ENOSPC", "shm": "ENOSPC"}, limits={"scratch_bytes": 2 * MIB})
def disk():
    """Fills the scratch, each of its directories."""
    def fill(path):
        with open(path, "wb") as file:
            while True:
                file.write(bytes(1 << 16))
    attempt("write", fill, "/workspace/x")
    attempt("other", fill, "/tmp/y")
    attempt("shm", fill, "/dev/shm/z")


@attack("the scratch has a number of files", {"files": "4[01][0-9][0-9]", "error": "ENOSPC", "directory": "ENOSPC", "link": "ENOSPC"})
def inodes():
    """Makes as many empty files as it can."""
    count = 0
    try:
        while True:
            os.close(os.open(f"/tmp/{count}", os.O_CREAT | os.O_WRONLY))
            count += 1
    except OSError as error:
        found("files", count)
        found("error", errno.errorcode[error.errno])
    attempt("directory", os.mkdir, "/workspace/d")
    attempt("link", os.symlink, "x", "/dev/shm/l")


@attack("RLIMIT_FSIZE, and the scratch's size", {"sparse": "EFBIG", "end": "EFBIG", "allocate": "EFBIG|ENOSPC"})
def huge_files():
    """Makes files of an absurd size."""
    import signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    fd = os.open("huge", os.O_CREAT | os.O_RDWR)
    attempt("sparse", os.ftruncate, fd, (1 << 63) - 1)
    attempt("end", os.pwrite, fd, b"x", 1 << 40)
    attempt("allocate", os.posix_fallocate, fd, 0, 1 << 40)


@attack("RLIMIT_NOFILE", {"descriptors": "3(1[0-9]|20)", "error": "EMFILE"})
def descriptors():
    """Opens as many files as it can."""
    opened = []
    try:
        while True:
            opened.append(os.open("/dev/null", os.O_RDONLY))
    except OSError as error:
        found("descriptors", len(opened) + 3)
        found("error", errno.errorcode[error.errno])


@attack("descriptors on their way count as their sender's, up to RLIMIT_NOFILE", {"error": "ETOOMANYREFS|EMFILE|EAGAIN", "bounded": "True"},
        alone=True)
def descriptors_in_flight():
    """Sends descriptors over sockets that nobody reads, so that they count as nobody's."""
    import array
    import socket
    pairs, sent = [], 0
    one = os.open("/dev/null", os.O_RDONLY)
    try:
        while True:
            pairs.append(socket.socketpair())
            pairs[-1][0].setblocking(False)
            for _ in range(20):
                pairs[-1][0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [one] * 250))])
                sent += 250
    except OSError as error:
        found("error", errno.errorcode[error.errno])
        found("bounded", sent < 5000)


@attack("RLIMIT_NOFILE, and F_SETPIPE_SZ up to 64 KiB", {"pipes": "15[0-9]|160", "size": "EPERM", "least": "done"}, denied={"fcntl": 3})
def pipes():
    """Makes as many pipes as it can, as large as it can, and fills them."""
    import fcntl
    ends = []
    try:
        while True:
            ends.append(os.pipe())
            os.set_blocking(ends[-1][1], False)
            os.write(ends[-1][1], bytes(4096))
    except OSError:
        found("pipes", len(ends))
    attempts("size", [lambda size=size: syscall("fcntl", ends[0][0], 1031, size) for size in (65537, 1 << 24, 1 << 32 | 65536)])
    attempt("least", fcntl.fcntl, ends[0][0], 1031, 65536)


@attack("RLIMIT_NOFILE: one process has no more than 160 x 160", {"watches": "2[0-9]{4}", "bounded": "True"})
def epoll_watches():
    """Has each descriptor watched by each other, which is kernel memory that some kernels do not count."""
    import select
    watchers, watched, watches = [], [], 0
    try:
        while True:
            watchers.append(select.epoll())
            watched.append(os.eventfd(0))
    except OSError:
        pass
    for watcher in watchers:
        for fd in watched:
            watcher.register(fd, select.EPOLLIN)
            watches += 1
    found("watches", watches)
    found("bounded", watches <= 160 * 160)


LOCKS = "PID 1 counts them, and says ENOLCK beyond `file_locks`"


@attack(LOCKS, {"error": "ENOLCK", "held": "True", "open file": "EINVAL", "given back": "done"}, denied={"fcntl": None})
def file_locks():
    """Hoards file locks, which the kernel charges to nobody: in many files, and split in two; then gives some back and takes others."""
    import fcntl, struct
    files, held = [open(f"locked{number}", "w+b") for number in range(100)], 0
    try:
        for round in range(400):
            for file in files:
                fcntl.lockf(file, fcntl.LOCK_EX, 1, 2 * round)
                held += 1
    except OSError as error:
        found("error", errno.errorcode[error.errno])
    found("held", 16000 < held <= 16384)
    attempt("open file", fcntl.fcntl, files[0], 37, struct.pack("hhqqiI", 1, 0, 1, 1, 0, 0))
    for file in files[:50]:
        file.close()
    attempt("given back", lambda: [fcntl.lockf(files[50], fcntl.LOCK_EX, 1, 2 * number) for number in range(5000)])


@attack(LOCKS + "; what it cannot count it takes for too many", {"unread": "ENOLCK", "held": "True", "tables": "ENOLCK"},
        denied={"fcntl": None})
def file_locks_out_of_sight():
    """Hoards locks in processes whose descriptors nobody may look at, each with a descriptor table of its own."""
    import shutil, subprocess, sys
    shutil.copy(os.path.realpath(sys.executable), "unreadable")
    os.chmod("unreadable", 0o111)
    program = """if 1:
        import errno, fcntl, os, signal, sys
        file, held = open(sys.argv[1], "w+b"), 0
        try:
            while held < 5000:
                fcntl.lockf(file, fcntl.LOCK_EX, 1, 2 * held)
                held += 1
        except OSError as error:
            print(errno.errorcode[error.errno], held, flush=True)
        else:
            print("done", held, flush=True)
        signal.pause()
    """
    held, error = 0, "done"
    hoarders = []
    while error == "done" and len(hoarders) < 6:
        hoarders.append(subprocess.Popen(["./unreadable", "-c", program, f"locked{len(hoarders)}"], stdout=subprocess.PIPE, text=True))
        error, number = hoarders[-1].stdout.readline().split()
        held += int(number)
    found("unread", error)
    found("held", held <= 16384)
    attempt("tables", lambda: __import__("fcntl").lockf(open("own", "w+b"), 2))
    for hoarder in hoarders:
        hoarder.kill()


@attack(LOCKS + ", while nobody is born and leaders last", {"bounded": "True", "alive": "True"}, denied={"fcntl": None})
def file_locks_across_exec():
    """Holds all locks in a table that a thread takes over from its leader, and gives back to it by executing a program, again and again."""
    import fcntl, subprocess, sys, time
    program = """if 1:
        import ctypes, fcntl, os, sys, threading
        again = [sys.executable, "-S", "-E", "-c", sys.argv[1], sys.argv[1]]
        if len(sys.argv) > 2:
            files, held = [os.open(f"locked{number}", os.O_RDWR | os.O_CREAT) for number in range(200)], 0
            for file in files:
                os.set_inheritable(file, True)
            try:
                while True:
                    fcntl.lockf(files[held % 200], fcntl.LOCK_EX, 1, held // 200 * 2)
                    held += 1
            except OSError:
                print(held, flush=True)
        left = threading.Event()
        threading.Thread(target=lambda: left.wait() and os.execv(again[0], again)).start()
        ctypes.CDLL(None).syscall(436, 4000, 4000, 2)  # close_range(CLOSE_RANGE_UNSHARE)
        left.set()
    """
    hoarder = subprocess.Popen([sys.executable, "-S", "-E", "-c", program, program, "first"], stdout=subprocess.PIPE, text=True)
    held = int(hoarder.stdout.readline())
    file, more, until = open("own", "w+b"), 0, time.monotonic() + 4
    while time.monotonic() < until and held + more <= 16384:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX, 1, 2 * more)
            more += 1
        except OSError as error:
            assert error.errno == errno.ENOLCK
    found("bounded", held + more <= 16384)
    found("alive", hoarder.poll() is None)
    hoarder.kill()


@attack("not counted again for each thread: none", {"given back": "done"}, limits={"pids": 64})
def file_locks_of_threads():
    """Holds a few locks, and takes and gives back others, in a process of many threads: all share its descriptors."""
    import fcntl, threading
    wait = threading.Event()
    for _ in range(50):
        threading.Thread(target=wait.wait, daemon=True).start()
    file = open("locked", "w+b")
    for held in range(330):
        fcntl.lockf(file, fcntl.LOCK_EX, 1, 2 * held)

    def work():
        for _ in range(20000):
            fcntl.lockf(file, fcntl.LOCK_EX, 1, 2000)
            fcntl.lockf(file, fcntl.LOCK_UN, 1, 2000)
    attempt("given back", work)
    wait.set()


@attack("output beyond the limit is drained and forgotten", None, verdict={"stdout_truncated": True, "stderr_truncated": True},
        limits={"output_bytes": 1000})
def output():
    """Prints without end, to both."""
    line = b"x: " + b"x" * 65530 + b"\n"
    for _ in range(100):
        os.write(1, line)
        os.write(2, line)


@output.checks
def cut(verdict):
    if len(verdict["stdout"]) > 1000 or len(verdict["stderr"]) > 1000 or len(verdict["logs"]) > 2000:
        yield f"{len(verdict['stdout'])} bytes of output"


@attack("output beyond the limit is drained and forgotten", None, limits={"output_bytes": 4096}, verdict={"stdout_truncated": True})
def output_that_expands():
    """Prints what takes six bytes in JSON for each of its own."""
    for _ in range(50):
        os.write(1, b"\x01\x02\x1b\xff" * 1000)


@attack("cpu_ms, counted over all processes", None, limits={"cpu_ms": 200},
        verdict={"status": "execution_error", "exit_code": 152, "signal": "SIGXCPU"})
def processor():
    """Computes for ever."""
    while True:
        pass


@attack("cpu_ms, counted over all processes", None, limits={"cpu_ms": 300},
        verdict={"status": "execution_error", "exit_code": 152, "signal": "SIGXCPU"})
def processor_of_children():
    """Computes in children, each for a while."""
    while True:
        if os.fork() == 0:
            for _ in range(1000000):
                pass
            os._exit(0)
        os.wait()


@attack("RLIMIT_SIGPENDING", {"queued": "EAGAIN", "timers": "EAGAIN"})
def signals_and_timers():
    """Queues signals and makes timers, which take the kernel's memory."""
    import signal
    signal.pthread_sigmask(signal.SIG_BLOCK, {40})
    libc = ctypes.CDLL(None, use_errno=True)

    def queue():
        for _ in range(5000):
            if libc.sigqueue(os.getpid(), 40, 0) < 0:
                raise OSError(ctypes.get_errno(), "sigqueue")

    def timers():
        place = ctypes.c_int()
        for _ in range(5000):
            syscall(222, 1, 0, ctypes.byref(place))
    attempt("queued", queue)
    attempt("timers", timers)


@attack("RLIMIT_MEMLOCK", {"mlock": "ENOMEM|EPERM|EAGAIN", "mlockall": "ENOMEM|EPERM"})
def locked_memory():
    """Locks memory, which the kernel cannot take back then."""
    import mmap
    libc = ctypes.CDLL(None, use_errno=True)
    block = mmap.mmap(-1, 4 << 20)

    def check(result):
        if result < 0:
            raise OSError(ctypes.get_errno(), "mlock")
    attempt("mlock", lambda: check(libc.mlock(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(block))), 4 << 20)))
    attempt("mlockall", lambda: check(libc.mlockall(3)))


@attack("RLIMIT_AS without a cgroup; with one, memory.max counts what is touched", {"reserve": "ENOMEM|done", "after": "True"})
def address_space():
    """Reserves more memory than there is."""
    import mmap
    attempt("reserve", lambda: mmap.mmap(-1, 1 << 42))
    found("after", len(bytes(1 << 20)) == 1 << 20)


@attack("the kernel's limit of mappings", {"error": "ENOMEM" if MAPPINGS < 131072 else "ENOMEM|none", "bounded": "True"})
def mappings():
    """Splits its memory into as many mappings as it can."""
    place = syscall(9, 0, 1 << 29, 0, 0x4022, -1, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    mprotect = libc.mprotect
    mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    base = place & (1 << 64) - 1
    count = 0
    while count < 130000 and mprotect(base + count * 8192 % (1 << 29), 4096, 1) == 0:
        count += 1
        if count * 8192 >= 1 << 29:
            break
    found("error", errno.errorcode.get(ctypes.get_errno(), "none"))
    found("bounded", count < 100000)


@attack("each socket's buffer is limited, their number by RLIMIT_NOFILE", {"filled": "True"}, limits={"memory_bytes": 256 * MIB})
def socket_buffers():
    """Fills the buffers of many sockets that nobody reads."""
    import socket
    pairs = []
    try:
        for _ in range(100):
            pairs.append(socket.socketpair())
            pairs[-1][0].setblocking(False)
            while True:
                try:
                    pairs[-1][0].send(bytes(65536))
                except BlockingIOError:
                    break
    except OSError:
        pass
    found("filled", len(pairs) == 100)


@attack("setxattr is answered with EOPNOTSUPP", {"user": "ENOTSUP", "link": "ENOTSUP"})
def attributes():
    """Puts large attributes onto files, which are kernel memory that some kernels do not count."""
    open("f", "w").close()
    attempts("user", [lambda number=number: os.setxattr("f", f"user.{number}", bytes(60000)) for number in range(20)])
    attempts("link", [lambda: os.setxattr("f", "security.selinux", bytes(10), follow_symlinks=False)])


@attack("arguments have the kernel's limit", {"long": "E2BIG", "deep": "done"})
def arguments():
    """Starts programs with endless arguments, and scripts of scripts."""
    attempt("long", lambda: os.execv("/bin/true", ["x" * 200000] * 100))
    with open("script", "w") as file:
        file.write("#!/workspace/script\n")
    os.chmod("script", 0o755)
    try:
        os.execv("/workspace/script", ["script"])
    except OSError as error:
        found("deep", "done" if error.errno in (errno.ELOOP, errno.ENOEXEC) else error)
