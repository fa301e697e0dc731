"""Every family of system calls that jails refuse, by name; entries of other ABIs; numbers that are none."""

import os

from attack import attack
from prelude import NUMBERS, attempt, attempts, found, refused, syscall


def all_refused(*names):
    """What to expect of refused(): each with EPERM, each named once."""
    return {"refused_by": "the filter allows none of these calls", "expect": dict.fromkeys(names, "EPERM"),
            "denied": dict.fromkeys(names, 1)}


@attack(unfiltered=True, **all_refused("init_module", "finit_module", "delete_module", "create_module", "query_module", "get_kernel_syms"))
def kernel_modules():
    """Loads, removes and lists kernel modules."""
    refused(("init_module", b"\x7fELF", 4, b""), ("finit_module", 0, b"", 0), ("delete_module", b"ext4", 0o1000),
            ("create_module", b"x", 4096), ("query_module", 0, 1, 0, 0, 0), ("get_kernel_syms", 0))


@attack(unfiltered=True, **all_refused("kexec_load", "kexec_file_load", "reboot"))
def other_kernel():
    """Loads another kernel, and reboots into it."""
    refused(("kexec_load", 0, 0, 0, 0), ("kexec_file_load", 0, 0, 0, 0, 0), ("reboot", 0xFEE1DEAD, 672274793, 0x01234567, 0))


@attack("the filter allows none of these calls", {"bpf": "EPERM"}, denied={"bpf": 8}, unfiltered=True)
def bpf():
    """Makes maps, loads programs and asks for the objects of others."""
    import struct
    attempts("bpf", [lambda command=command: syscall("bpf", command, struct.pack("16Q", 1, 4, *[0] * 14), 128)
                     for command in (0, 5, 7, 11, 13, 15, 18, 28)])


@attack("the filter allows none of these calls", {"perf_event_open": "EPERM"}, denied={"perf_event_open": 4}, unfiltered=True)
def performance_events():
    """Counts what the CPU does for itself, for PID 1, for everybody, and traces the kernel."""
    import struct
    attempts("perf_event_open", [
        lambda kind=kind, pid=pid: syscall("perf_event_open", struct.pack("IIQ", kind, 112, 0) + bytes(96), pid, -1, -1, 0)
        for kind, pid in ((0, 0), (1, 1), (2, -1), (5, 0))])


@attack(unfiltered=True, **all_refused("io_uring_setup", "io_uring_enter", "io_uring_register"))
def io_uring():
    """Makes a ring, which does most of what other calls do, past the filter."""
    refused(("io_uring_setup", 8, bytes(120)), ("io_uring_enter", 0, 1, 0, 0, 0, 0), ("io_uring_register", -1, 0, 0, 0))


@attack("the filter allows none of these calls", {"userfaultfd": "EPERM", "device": "ENOENT"}, denied={"userfaultfd": 3}, unfiltered=True)
def fault_handling():
    """Gets hold of page faults, to stop the kernel in the middle of an operation."""
    attempts("userfaultfd", [lambda flags=flags: syscall("userfaultfd", flags) for flags in (0, 1, 0o2000000)])
    attempt("device", os.open, "/dev/userfaultfd", os.O_RDWR)


@attack("the filter allows none of these calls", {"traceme": "EPERM", "init": "EPERM", "child": "EPERM"}, denied={"ptrace": 6},
        unfiltered=True)
def trace():
    """Traces PID 1, its own child and itself."""
    import signal
    attempt("traceme", syscall, "ptrace", 0, 0, 0, 0)
    attempts("init", [lambda request=request: syscall("ptrace", request, 1, 0, 0) for request in (16, 0x4206)])
    child = os.fork()
    if child == 0:
        signal.pause()
    attempts("child", [lambda request=request: syscall("ptrace", request, child, 0, 0) for request in (16, 0x4206, 12)])
    os.kill(child, signal.SIGKILL)


@attack(unfiltered=True, **all_refused("process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "kcmp", "pidfd_getfd"))
def memory_of_init():
    """Reads, writes and releases the memory of PID 1, compares itself with it, and takes its descriptors."""
    import struct
    buffer = ctypes.create_string_buffer(64)
    local = struct.pack("QQ", ctypes.addressof(buffer), 64)
    remote = struct.pack("QQ", 0x7FFC00000000, 64)
    pidfd = os.pidfd_open(1)
    refused(("process_vm_readv", 1, local, 1, remote, 1, 0), ("process_vm_writev", 1, local, 1, remote, 1, 0),
            ("process_madvise", pidfd, remote, 1, 4, 0), ("process_mrelease", pidfd, 0), ("kcmp", os.getpid(), 1, 0, 0, 0),
            ("pidfd_getfd", pidfd, 3, 0))


@attack(unfiltered=True, **all_refused("clock_settime", "settimeofday", "adjtimex", "clock_adjtime"))
def clocks():
    """Sets the host's clock, and bends it."""
    import struct
    refused(("clock_settime", 0, struct.pack("QQ", 0, 0)), ("settimeofday", struct.pack("QQ", 0, 0), 0), ("adjtimex", bytes(208)),
            ("clock_adjtime", 0, bytes(208)))


@attack(**all_refused("quotactl", "quotactl_fd", "swapon", "swapoff", "acct", "sync", "syncfs", "vhangup", "nfsservctl"))
def disks():
    """Sets quotas, swaps, writes accounts, and has everybody's data written out."""
    refused(("quotactl", 0x800007, b"/dev/vda", 0, 0), ("quotactl_fd", 0, 0x800007, 0, 0), ("swapon", b"/tmp/x", 0), ("swapoff", b"/tmp/x"),
            ("acct", b"/tmp/x"), ("sync",), ("syncfs", 0), ("vhangup",), ("nfsservctl", 0, 0, 0))


@attack("the filter allows none of these calls", {"add_key": "EPERM", "request_key": "EPERM", "keyctl": "EPERM"},
        denied={"add_key": 1, "request_key": 1, "keyctl": 12}, unfiltered=True)
def keyrings():
    """Reads, links and searches the keyrings of session, user and process, which no namespace confines."""
    refused(("add_key", b"user", b"attack", b"x", 1, -4), ("request_key", b"user", b"attack", 0, -4))
    # Join a session, describe, read, link, search and list the keyrings of process, session, user.
    attempts("keyctl", [lambda words=words: syscall("keyctl", *words) for words in
                        ((1, b"attack"), (6, -3, bytes(256), 256), (11, -3, bytes(256), 256), (8, -4, -3), (10, -3, b"user", b"attack", 0),
                         (6, -4, bytes(256), 256), (11, -4, bytes(256), 256), (11, -5, bytes(256), 256), (0, -3, 1), (22, -3, 0),
                         (17, 1), (32, 0, 0, 0))])


@attack(unfiltered=True, **all_refused("shmget", "semget", "msgget", "shmat", "mq_open", "mq_unlink"))
def message_queues():
    """Uses System V and POSIX queues, semaphores and segments, which outlive their processes."""
    refused(("shmget", 0, 4096, 0o1600), ("semget", 0, 1, 0o1600), ("msgget", 0, 0o1600), ("shmat", 0, 0, 0),
            ("mq_open", b"attack", 0o102, 0o600, 0), ("mq_unlink", b"attack"))


@attack(unfiltered=True, **all_refused("memfd_create", "memfd_secret", "remap_file_pages"))
def hidden_memory():
    """Takes memory that no limit of the scratch counts, or that the kernel itself cannot see."""
    refused(("memfd_create", b"attack", 0), ("memfd_secret", 0), ("remap_file_pages", 0, 4096, 0, 0, 0))


@attack(unfiltered=True, **all_refused("inotify_init", "inotify_init1", "fanotify_init", "fanotify_mark"))
def watch_files():
    """Watches when programs and libraries are opened, by whichever job."""
    refused(("inotify_init",), ("inotify_init1", 0), ("fanotify_init", 0, 0), ("fanotify_mark", 0, 1, 0x20, -100, b"/"))


@attack("fcntl is refused but for a few numbers, of which the kernel reads 32 bits", {"watch": "EPERM", "hold": "EPERM"},
        denied={"fcntl": 5})
def watch_files_the_old_way():
    """Asks for a signal whenever a file of the host's is read (F_NOTIFY), and makes whoever opens one wait (F_SETLEASE)."""
    directory, file = os.open("/usr/bin", os.O_RDONLY), os.open("/workspace/mine", os.O_RDWR | os.O_CREAT)
    # DN_ACCESS, DN_MULTISHOT; the number with bits that the kernel does not read
    attempts("watch", [lambda number=number: syscall("fcntl", directory, number, 0x80000001) for number in (1026, 1 << 32 | 1026)])
    # F_WRLCK, F_UNLCK; F_SETDELEG
    attempts("hold", [lambda words=words: syscall("fcntl", file, *words) for words in ((1024, 1), (1 << 63 | 1024, 2), (1040, 0))])


@attack("they are answered with EINVAL, and programs copy instead", {"splice": "EINVAL", "tee": "EINVAL", "vmsplice": "EINVAL"})
def splicing():
    """Puts pages of read-only files into pipes and writes there (CVE-2022-0847, \"Dirty Pipe\")."""
    import struct
    one, two = os.pipe()
    file = os.open("/usr/bin/env", os.O_RDONLY)
    refused(("splice", file, 0, two, 0, 1, 0), ("tee", one, two, 1, 0), ("vmsplice", two, struct.pack("QQ", 0, 0), 1, 0))


@attack(unfiltered=True, **all_refused("mbind", "set_mempolicy", "set_mempolicy_home_node", "migrate_pages", "move_pages"))
def memory_placement():
    """Moves memory between nodes, its own and that of PID 1."""
    refused(("mbind", 0, 4096, 0, 0, 0, 0), ("set_mempolicy", 0, 0, 0), ("set_mempolicy_home_node", 0, 4096, 0, 0),
            ("migrate_pages", 1, 0, 0, 0), ("move_pages", 1, 0, 0, 0, 0, 0))


@attack(unfiltered=True, **all_refused("iopl", "ioperm", "modify_ldt"))
def hardware():
    """Talks to ports, and puts segments of its own into the CPU's tables."""
    refused(("iopl", 3), ("ioperm", 0, 1024, 1), ("modify_ldt", 1, bytes(16), 16))


@attack(unfiltered=True, **all_refused("_sysctl", "sysfs", "uselib", "ustat", "afs_syscall", "vserver", "tuxcall", "security", "epoll_ctl_old",
                      "lookup_dcookie"))
def entries_of_the_past():
    """Calls what nothing made in this century uses."""
    refused(*[(name, 0, 0, 0, 0) for name in ("_sysctl", "sysfs", "uselib", "ustat", "afs_syscall", "vserver", "tuxcall", "security",
                                             "epoll_ctl_old", "lookup_dcookie")])


@attack("only asking and PER_LINUX are allowed", {"personality": "EPERM", "asked": "0"}, denied={"personality": 5}, unfiltered=True)
def personalities():
    """Turns off the randomisation of addresses, and makes what is readable executable."""
    attempts("personality", [lambda value=value: syscall("personality", value)
                             for value in (0x0040000, 0x0400000, 0x0100000, 0x8, 0xFFFFFFFF00000008)])
    found("asked", syscall("personality", 0xFFFFFFFF))


@attack("ioctl is refused but for a few numbers, whatever the other 32 bits are", {"terminal": "EPERM", "high": "EPERM", "devices": "EPERM"},
        denied={"ioctl": 9})
def input_output_controls():
    """Types into a terminal, steals one, and talks to file systems, loops and seccomp listeners."""
    attempts("terminal", [lambda number=number: syscall("ioctl", 0, number, 0) for number in (0x5412, 0x541C, 0x540E)])
    attempts("high", [lambda number=number: syscall("ioctl", 0, number, 0) for number in (1 << 32 | 0x5412, 1 << 63 | 0x541C)])
    # FS_IOC_SETFLAGS, LOOP_SET_FD, SECCOMP_IOCTL_NOTIF_RECV, KVM_CREATE_VM
    attempts("devices", [lambda number=number: syscall("ioctl", 0, number, 0) for number in (0x40086602, 0x4C00, 0xC0502100, 0xAE01)])



@attack("calls of another ABI end the program", {"before": "here"}, denied=None,
        verdict={"status": "execution_error", "exit_code": 159, "signal": "SIGSYS"})
def x32_entry():
    """Calls getpid by x32's number, which filters that compare numbers alone do not know."""
    found("before", "here")
    found("x32", syscall(39 | 0x40000000))


@attack("calls of another ABI end the program", {"before": "here"}, denied=None,
        verdict={"status": "execution_error", "exit_code": 159, "signal": "SIGSYS"})
def i386_entry():
    """Calls getpid by int 0x80, where numbers have other meanings."""
    import mmap
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(bytes.fromhex("b8 14 00 00 00 cd 80 c3"))  # mov eax, 20; int 0x80; ret
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    found("before", "here")
    found("i386", ctypes.CFUNCTYPE(ctypes.c_int)(address)())


@attack("calls of another ABI end the program", {"ended": "-31|ENOEXEC"}, denied=None)
def i386_program():
    """Runs a program of 32 bits, which has no other entry."""
    import struct
    import subprocess
    code = bytes.fromhex("b8 01 00 00 00 31 db cd 80")  # exit(0)
    base, size = 0x08048000, 84 + 9
    header = b"\x7fELF\x01\x01\x01" + bytes(9) + struct.pack("<HHIIIIIHHHHHH", 2, 3, 1, base + 84, 52, 0, 0, 52, 32, 1, 0, 0, 0)
    segment = struct.pack("<IIIIIIII", 1, 0, base, base, size, size, 5, 4096)
    with open("program", "wb") as file:
        file.write(header + segment + code)
    os.chmod("program", 0o755)
    try:
        found("ended", subprocess.run(["./program"]).returncode)
    except OSError as error:
        found("ended", errno.errorcode[error.errno])


@attack("the filter's answer to what it does not know is no", {"numbers": "EPERM|EPERM ENOSYS"}, denied=None)
def numbers_that_are_none():
    """Calls numbers that no system call has."""
    attempts("numbers", [lambda number=number: syscall(number, 0, 0, 0, 0, 0, 0)
                         for number in (480, 511, 547, 600, 1000, 9999, 0x3FFFFFFF)])


@attack("an allow-list", {"allowed": r"\[\]"}, denied=None)
def all_that_are_new():
    """Calls each number from 424 on, so that what a newer kernel adds is refused until somebody has looked at it."""
    known = {424: "pidfd_send_signal", 434: "pidfd_open", 436: "close_range", 437: "openat2", 439: "faccessat2", 441: "epoll_pwait2",
             449: "futex_waitv", 452: "fchmodat2"}
    allowed = []
    for number in set(range(424, 480)) - set(known):
        try:
            syscall(number, 0, 0, 0, 0, 0, 0)
        except OSError as error:
            if error.errno in (errno.EPERM, errno.ENOSYS):
                continue
        allowed.append(number)
    found("allowed", allowed)


@attack("every refused call is named in the reply, or counted in the last row", {"refused": "True"}, denied=None)
def every_name_there_is():
    """Calls everything that this file names, so that the reply's table is full."""
    words = {name for name in NUMBERS} - {"mmap", "ioctl", "fcntl", "socket", "setsockopt", "clone", "mknod", "mknodat", "personality", "prctl",
                                          "arch_prctl", "setrlimit", "prlimit64", "pidfd_open", "openat2", "madvise", "membarrier", "futex",
                                          "sendto", "recvfrom", "sendmsg", "recvmsg", "sendmmsg", "recvmmsg", "timer_create",
                                          "clock_nanosleep", "setpriority", "sched_setparam", "sched_setscheduler", "sched_setaffinity"}
    refused_calls = 0
    for name in sorted(words):
        try:
            syscall(name, 0, 0, 0, 0, 0, 0)
        except OSError:
            refused_calls += 1
    found("refused", refused_calls == len(words))


@attack("mmap is allowed without MAP_HUGETLB, whatever the kernel does not read", {"huge": "EPERM"}, denied={"mmap": 4}, unfiltered=True)
def huge_pages():
    """Takes pages from the host's pool of huge ones, which no limit of the job counts."""
    # MAP_HUGETLB; with 2 MiB and 1 GiB; private and shared
    attempts("huge", [lambda flags=flags: syscall("mmap", 0, 1 << 21, 3, flags, -1, 0)
                      for flags in (0x40022, 0x40022 | 21 << 26, 0x40021 | 30 << 26, 1 << 32 | 0x40022)])


@attack("madvise is allowed for a few numbers, of which the kernel reads 32 bits", {"cold": "EPERM", "merge": "EPERM", "poison": "EPERM"},
        denied={"madvise": 6}, unfiltered=True)
def advice_on_memory():
    """Moves its memory to swap, where only a cgroup counts it; has it compared with that of other jobs; takes pages from the host."""
    import mmap
    memory = mmap.mmap(-1, 1 << 16)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    attempts("cold", [lambda advice=advice: syscall("madvise", address, 4096, advice) for advice in (20, 21, 1 << 32 | 21)])
    attempts("merge", [lambda: syscall("madvise", address, 4096, 12)])
    attempts("poison", [lambda advice=advice: syscall("madvise", address, 4096, advice) for advice in (100, 101)])


@attack("futex is allowed by its operation, with and without its two flags", {"lock": "ENOSYS", "try": "ENOSYS", "requeue": "ENOSYS", "none": "EPERM"},
        denied={"futex": 1}, unfiltered=True)
def priority_inheritance():
    """Uses locks with priority inheritance and moves waiters between them (CVE-2014-3153, "Towelroot"; CVE-2021-3347)."""
    import struct
    word, other = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
    past = struct.pack("QQ", 0, 1)

    def operations(*numbers):
        return [lambda number=number: syscall("futex", word, number, 1, past, other, 0) for number in numbers]
    # LOCK_PI, UNLOCK_PI; private and shared
    attempts("lock", operations(6, 7, 6 | 128, 7 | 128))
    # TRYLOCK_PI, LOCK_PI2; WAIT_REQUEUE_PI, CMP_REQUEUE_PI
    attempts("try", operations(8, 8 | 128, 13 | 128, 13 | 128 | 256, 1 << 32 | 13))
    attempts("requeue", operations(11, 11 | 256, 12, 12 | 128))
    attempts("none", operations(2))  # FUTEX_FD, which was one once


@attack("timers go by clocks that go on by themselves", {"timer": "EPERM", "sleep": "EPERM"}, denied={"timer_create": 4, "clock_nanosleep": 3},
        unfiltered=True)
def timers_on_cpu_time():
    """Makes timers on the CPU time of itself, of PID 1 and of a thread (CVE-2025-38352)."""
    import struct
    made = ctypes.create_string_buffer(8)
    # CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, ~pid << 3 | 2
    clocks = (2, 3, (~0 << 3 | 2) & 0xFFFFFFFF, (~1 << 3 | 2) & 0xFFFFFFFF)
    attempts("timer", [lambda clock=clock: syscall("timer_create", clock, 0, made) for clock in clocks])
    # Until a time that has passed (TIMER_ABSTIME): the clock of a program that sleeps stands still, and where this is allowed it is to end.
    attempts("sleep", [lambda clock=clock: syscall("clock_nanosleep", clock, 1, struct.pack("QQ", 0, 1), 0) for clock in (2, clocks[2], clocks[3])])


@attack("membarrier is allowed between threads of one program", {"barriers": "EPERM"}, denied={"membarrier": 5}, unfiltered=True)
def barriers_for_all():
    """Has every CPU of the host wait for it."""
    # GLOBAL, GLOBAL_EXPEDITED and its registration, PRIVATE_EXPEDITED_SYNC_CORE, PRIVATE_EXPEDITED_RSEQ
    attempts("barriers", [lambda command=command: syscall("membarrier", command, 0, 0) for command in (1, 2, 4, 32, 128)])


@attack("they are answered with ENOSYS, and the C library does without", {"execveat": "ENOSYS", "preadv2": "ENOSYS", "pwritev2": "ENOSYS"})
def calls_with_flags():
    """Runs a program by its descriptor, reads and writes by flags."""
    import struct
    true, null = os.open("/bin/true", os.O_RDONLY), os.open("/dev/null", os.O_RDWR)
    buffer = ctypes.create_string_buffer(64)
    vector = struct.pack("QQ", ctypes.addressof(buffer), 64)
    if os.fork() == 0:
        attempt("execveat", syscall, "execveat", true, b"", 0, 0, 0x1000)
        os._exit(0)
    os.wait()
    # RWF_HIPRI, RWF_NOWAIT
    attempt("preadv2", syscall, "preadv2", null, vector, 1, 0, 0, 1)
    attempt("pwritev2", syscall, "pwritev2", null, vector, 1, 0, 0, 8)


@attack(unfiltered=True, **all_refused("io_setup", "io_submit", "io_getevents", "io_cancel", "io_destroy"))
def asynchronous_io():
    """Makes a ring of the older kind, whose memory belongs to a file system of the kernel's own."""
    context = ctypes.create_string_buffer(8)
    refused(("io_setup", 8, context), ("io_submit", 0, 0, 0), ("io_getevents", 0, 0, 0, 0, 0), ("io_cancel", 0, 0, 0), ("io_destroy", 0))


@attack("the number of the process must be 0, its own", {"class": "EPERM", "nice": "EPERM", "all": "EPERM", "itself": "done"},
        denied={"sched_setscheduler": 1, "sched_setparam": 1, "sched_setaffinity": 1, "setpriority": 4}, unfiltered=True)
def demotes_init():
    """Puts PID 1, which has the same uid, last in the line for the CPU."""
    import struct
    attempts("class", [lambda: syscall("sched_setscheduler", 1, 5, struct.pack("i", 0)), lambda: syscall("sched_setparam", 1, struct.pack("i", 0)),
                       lambda: syscall("sched_setaffinity", 1, 8, struct.pack("Q", 1))])
    attempts("nice", [lambda pid=pid: syscall("setpriority", 0, pid, 19) for pid in (1, 1 << 32 | 1)])
    # PRIO_PGRP, PRIO_USER
    attempts("all", [lambda which=which: syscall("setpriority", which, 0, 19) for which in (1, 2)])
    attempt("itself", syscall, "setpriority", 0, 0, 19)
