"""What every attack has at hand. This text goes in front of each program into its jail; outside it is a module like any other.

An attack says what came of each attempt in a line `what: outcome`: an errno's name where it was refused, "done" where it was
not."""

import ctypes
import errno
import json
import os

# What an attacker may have found out: where things lie outside. Everything in it is known to be useless.
GIVEN = json.loads(os.environ.get("ATTACK_GIVEN", "{}"))

# Of x86_64; the same numbers mean the same on every architecture from 424 on.
NUMBERS = {
    "mmap": 9, "ioctl": 16, "madvise": 28, "shmget": 29, "shmat": 30, "socket": 41, "sendto": 44, "recvfrom": 45,
    "sendmsg": 46, "recvmsg": 47, "setsockopt": 54, "clone": 56, "semget": 64, "msgget": 68, "fcntl": 72,
    "ptrace": 101, "syslog": 103, "setgroups": 116, "capset": 126, "mknod": 133, "uselib": 134, "personality": 135, "ustat": 136,
    "sysfs": 139, "setpriority": 141, "sched_setparam": 142, "sched_setscheduler": 144, "vhangup": 153, "modify_ldt": 154, "pivot_root": 155, "_sysctl": 156, "prctl": 157, "arch_prctl": 158,
    "adjtimex": 159, "setrlimit": 160, "chroot": 161, "sync": 162, "acct": 163, "settimeofday": 164, "mount": 165, "umount2": 166,
    "swapon": 167, "swapoff": 168, "reboot": 169, "sethostname": 170, "setdomainname": 171, "iopl": 172, "ioperm": 173,
    "create_module": 174, "init_module": 175, "delete_module": 176, "get_kernel_syms": 177, "query_module": 178, "quotactl": 179,
    "nfsservctl": 180, "afs_syscall": 183, "tuxcall": 184, "security": 185, "setxattr": 188, "futex": 202,
    "sched_setaffinity": 203, "io_setup": 206, "io_destroy": 207, "io_getevents": 208, "io_submit": 209, "io_cancel": 210,
    "lookup_dcookie": 212,
    "epoll_ctl_old": 214, "remap_file_pages": 216, "timer_create": 222, "clock_settime": 227, "clock_nanosleep": 230, "vserver": 236, "mbind": 237, "set_mempolicy": 238,
    "mq_open": 240, "mq_unlink": 241, "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250,
    "inotify_init": 253, "migrate_pages": 256, "mknodat": 259, "unshare": 272, "splice": 275, "tee": 276, "vmsplice": 278,
    "move_pages": 279, "inotify_init1": 294, "recvmmsg": 299, "perf_event_open": 298, "fanotify_init": 300, "fanotify_mark": 301, "prlimit64": 302,
    "name_to_handle_at": 303, "open_by_handle_at": 304, "clock_adjtime": 305, "syncfs": 306, "sendmmsg": 307, "setns": 308,
    "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "finit_module": 313, "sched_setattr": 314, "seccomp": 317,
    "memfd_create": 319, "kexec_file_load": 320, "bpf": 321, "execveat": 322, "userfaultfd": 323, "membarrier": 324,
    "preadv2": 327, "pwritev2": 328, "pkey_alloc": 330, "io_uring_setup": 425,
    "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431,
    "fsmount": 432, "fspick": 433, "pidfd_open": 434, "clone3": 435, "openat2": 437, "pidfd_getfd": 438, "process_madvise": 440,
    "mount_setattr": 442, "quotactl_fd": 443, "landlock_create_ruleset": 444, "landlock_restrict_self": 446,
    "memfd_secret": 447, "process_mrelease": 448, "set_mempolicy_home_node": 450, "statmount": 457, "listmount": 458,
}


def found(what, value):
    print(f"{what}: {value}", flush=True)


def attempt(what, call, *arguments):
    """-> what the call returned, or None"""
    try:
        result = call(*arguments)
    except OSError as error:
        found(what, errno.errorcode.get(error.errno, error.errno))
        return None
    found(what, "done")
    return result


def attempts(what, calls):
    """Many of one kind: says the different outcomes, each once."""
    outcomes = set()
    for call in calls:
        try:
            call()
        except OSError as error:
            outcomes.add(errno.errorcode.get(error.errno, str(error.errno)))
        else:
            outcomes.add("done")
    found(what, " ".join(sorted(outcomes)))


def syscall(name, *arguments):
    """A system call past the C library; `name` may be a number."""
    words = [ctypes.c_ulong(word & (1 << 64) - 1) if isinstance(word, int) else word for word in arguments]
    number = name if isinstance(name, int) else NUMBERS[name]
    result = ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *words)
    if result == -1:
        raise OSError(ctypes.get_errno(), name)
    return result


def refused(*calls):
    """Tries each (name, argument, ...), reported by name."""
    for name, *arguments in calls:
        attempt(name, syscall, name, *arguments)


def read(path):
    with open(path, "rb") as file:
        return file.read(65536).decode(errors="replace")


def hold():
    """Waits until the tester, who sees the waiting process, ends it."""
    import subprocess
    subprocess.run([os.environ["ATTACK_HOLD"], "1000"], executable="/usr/bin/sleep")


def loot(what, path):
    """Reads a file and shows it."""
    try:
        found(what, read(path))
    except OSError as error:
        found(what, errno.errorcode[error.errno])
