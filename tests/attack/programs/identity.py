"""Gaining a uid, groups, capabilities; set-user-ID files; the filter and what guards it."""

import os

from attack import attack
from prelude import attempt, attempts, found, read, refused, syscall

ONE_ID = "one uid and one gid are mapped in the jail, and there is no capability to take others"


@attack(ONE_ID, {"setuid": "EINVAL", "setgid": "EINVAL", "setresuid": "EINVAL|EPERM", "setreuid": "EINVAL", "uid": "1000 1000"})
def become_root():
    """Becomes uid 0 and other users by every call there is."""
    attempt("setuid", os.setuid, 0)
    attempt("setgid", os.setgid, 0)
    attempts("setresuid", [lambda uid=uid: os.setresuid(uid, uid, uid) for uid in (0, 1, 65534, 4294967294, 1001)])
    attempts("setreuid", [lambda uid=uid: os.setreuid(-1, uid) for uid in (0, 65534)])
    found("uid", f"{os.getuid()} {os.geteuid()}")


@attack("setgroups is refused by name; there are no supplementary groups", {"setgroups": "EPERM", "groups": r"\[(65534)?\]"},
        denied={"setgroups": 2}, unfiltered=True)
def groups():
    """Joins groups, or leaves one that a file's mode holds against it."""
    attempts("setgroups", [lambda: os.setgroups([0, 4, 6, 27]), lambda: os.setgroups([])])
    found("groups", [group for group in os.getgroups() if group != os.getgid()])


@attack("every capability set is empty, the bounding set too", {"sets": "0000000000000000", "capset": "EPERM", "ambient": "EPERM"},
        denied=["capset", "prctl"], unfiltered=True)
def capabilities():
    """Looks for capabilities that were left, and raises new ones."""
    import struct
    status = dict(line.split(":\t") for line in read("/proc/self/status").splitlines() if ":\t" in line)
    found("sets", " ".join(sorted({status[f"Cap{name}"] for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")})))
    full = struct.pack("6I", *[0xFFFFFFFF] * 6)
    attempt("capset", syscall, "capset", struct.pack("Ii", 0x20080522, 0), full)
    attempt("ambient", syscall, "prctl", 47, 2, 21, 0, 0)


@attack("the bits are locked, and prctl is refused but for a few numbers", {"prctl": "EPERM", "bits": "EPERM"}, denied=None)
def secure_bits():
    """Turns off what keeps a set-user-ID program from gaining capabilities."""
    attempts("prctl", [lambda bits=bits: syscall("prctl", 28, bits, 0, 0, 0) for bits in (0, 1 << 4)])
    attempt("bits", syscall, "prctl", 8, 1, 0, 0, 0)


@attack("no_new_privs cannot be taken back", {"set": "EINVAL", "still": "1", "status": "1"})
def new_privileges():
    """Takes no_new_privs back."""
    attempt("set", syscall, "prctl", 38, 0, 0, 0, 0)
    found("still", syscall("prctl", 39, 0, 0, 0, 0))
    found("status", read("/proc/self/status").split("NoNewPrivs:\t")[1][0])


@attack("mounts are nosuid, and no_new_privs is set", {"found": "True|False", "uids": "1000 1000"}, denied=None)
def set_user_id_programs():
    """Runs every set-user-ID and set-group-ID program that it finds."""
    import glob
    import stat
    import subprocess
    special = [path for path in glob.glob("/usr/bin/*") if os.lstat(path).st_mode & (stat.S_ISUID | stat.S_ISGID)]
    found("found", special != [])
    for path in special:
        subprocess.run([path, "--help"], stdin=subprocess.DEVNULL, capture_output=True, timeout=20)
    # What such a program would be: a copy of id, marked.
    subprocess.run(["cp", "/usr/bin/id", "/workspace/id"], check=True)
    os.chmod("/workspace/id", 0o6755)
    ids = [subprocess.run(["/workspace/id", flag], capture_output=True, text=True).stdout.strip() for flag in ("-u", "-g")]
    found("uids", " ".join(ids))


@attack(ONE_ID + "; attributes of files cannot be set", {"chown": "EINVAL|EPERM", "capability": "ENOTSUP", "trusted": "ENOTSUP"},
        unfiltered=False)
def privileged_files():
    """Makes files that belong to root, or that carry capabilities."""
    import struct
    open("f", "w").close()
    attempts("chown", [lambda uid=uid: os.chown("f", uid, uid) for uid in (0, 65534, 1001)])
    attempt("capability", syscall, "setxattr", b"f", b"security.capability", struct.pack("5I", 0x2000001, *[0xFFFFFFFF] * 4), 20, 0)
    attempt("trusted", syscall, "setxattr", b"f", b"trusted.overlay.opaque", b"y", 1, 0)


@attack("su and sudo are as powerless as the program", {"su": "[1-9].*|absent", "sudo": "[1-9].*|absent", "newgrp": "[1-9].*|absent"},
        denied=None)
def tools():
    """Asks su, sudo and newgrp."""
    import subprocess
    for name, argv in (("su", ["su", "-c", "id"]), ("sudo", ["sudo", "-n", "id"]), ("newgrp", ["newgrp", "root"])):
        try:
            found(name, subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=20).returncode)
        except FileNotFoundError:
            found(name, "absent")


@attack("the filter cannot be changed by what it filters", {"seccomp": "EPERM", "prctl": "EPERM", "mode": "2"},
        denied={"seccomp": 3, "prctl": 2})
def own_filter():
    """Puts filters of its own in front, to hide calls or to answer them itself."""
    import struct
    allow = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7FFF0000))
    program = struct.pack("HxxxxxxQ", 1, ctypes.addressof(allow))
    attempts("seccomp", [lambda flags=flags: syscall("seccomp", 1, flags, program) for flags in (0, 1, 8)])
    attempts("prctl", [lambda: syscall("prctl", 22, 2, program, 0, 0), lambda: syscall("prctl", 22, 1, 0, 0, 0)])
    found("mode", read("/proc/self/status").split("Seccomp:\t")[1][0])


@attack("only PR_GET_DUMPABLE is allowed; ptrace is not", {"dumpable": "EPERM", "tracer": "EPERM", "mm": "EPERM"}, denied={"prctl": 3})
def process_controls():
    """Changes who may trace it, and what the kernel says of its memory."""
    attempt("dumpable", syscall, "prctl", 4, 2, 0, 0, 0)
    attempt("tracer", syscall, "prctl", 0x59616D61, -1, 0, 0, 0)
    attempt("mm", syscall, "prctl", 35, 13, 0, 0, 0)


@attack("core dumps stay off: setting the limit is refused", {"prlimit64": "EPERM", "setrlimit": "EPERM", "high": "EPERM", "still": "(0|1) (0|1)"},
        denied={"prlimit64": 2, "setrlimit": 3})
def core_limit():
    """Sets a core limit of 0, with which the kernel would start the host's core handler, as root, with the program's memory."""
    import resource
    import struct
    none = struct.pack("QQ", 0, 0)
    attempts("prlimit64", [lambda: syscall("prlimit64", 0, 4, none, 0), lambda: syscall("prlimit64", 0, 1 << 32 | 4, none, 0)])
    attempts("setrlimit", [lambda: syscall("setrlimit", 4, none)])
    attempts("high", [lambda: syscall("setrlimit", 1 << 32 | 4, none), lambda: syscall("setrlimit", 0xFFFFFFFF00000004, none)])
    found("still", "{} {}".format(*resource.getrlimit(resource.RLIMIT_CORE)))


@attack("limits are lowered, never raised", {"raise": "EPERM", "still": "True"})
def raise_limits():
    """Raises each of its limits."""
    import resource

    def raise_limit(kind):
        hard = resource.getrlimit(kind)[1]
        if hard == resource.RLIM_INFINITY:
            raise OSError(1, "there is no limit to raise")
        try:
            resource.setrlimit(kind, (hard + 1, hard + 1))
        except ValueError:
            raise OSError(1, "not allowed to raise maximum limit") from None
    kinds = (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_STACK, resource.RLIMIT_MEMLOCK, resource.RLIMIT_NPROC,
             resource.RLIMIT_SIGPENDING, resource.RLIMIT_MSGQUEUE, resource.RLIMIT_NICE, resource.RLIMIT_RTPRIO)
    attempts("raise", [lambda kind=kind: raise_limit(kind) for kind in kinds])
    found("still", resource.getrlimit(resource.RLIMIT_NOFILE) == (320, 320))


@attack("prlimit64 is allowed for the caller alone", {"cpu": "EPERM", "nofile": "EPERM", "read": "EPERM", "children": "EPERM"},
        denied={"prlimit64": 4})
def limits_of_init():
    """Lowers the limits of PID 1, which has its uid, so that its own end would look like an error of immure's."""
    import struct
    none = struct.pack("QQ", 0, 0)
    attempt("cpu", syscall, "prlimit64", 1, 0, none, 0)
    attempt("nofile", syscall, "prlimit64", 1, 7, none, 0)
    attempt("read", syscall, "prlimit64", 1, 7, 0, bytes(16))
    attempt("children", syscall, "prlimit64", 1 << 32 | 1, 0, none, 0)


@attack("nice values and real-time classes are limited to none", {"nice": "EACCES|EPERM", "fifo": "EPERM", "deadline": "EPERM"},
        denied=["sched_setattr"])
def priority():
    """Takes precedence over the rest of the host."""
    import struct
    attempt("nice", os.setpriority, os.PRIO_PROCESS, 0, -20)
    attempts("fifo", [lambda kind=kind: os.sched_setscheduler(0, kind, os.sched_param(1)) for kind in (os.SCHED_FIFO, os.SCHED_RR)])
    attributes = struct.pack("IIQiIQQQ", 48, 6, 0, 0, 0, 10000000, 20000000, 20000000)
    refused()
    attempt("deadline", syscall, "sched_setattr", 0, attributes, 0)
