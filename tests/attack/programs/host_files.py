"""Reading or writing the host's files."""

import os

from attack import attack
from prelude import GIVEN, attempt, attempts, found, loot, read, syscall

ROOT = "the root is a file system of the jail's own; the host's was detached"
READ_ONLY = "mounts are read-only as whole trees"


@attack(ROOT, {"secret": "ENOENT", "shadow": "ENOENT", "directory": "ENOENT"}, outside=True)
def absolute_path():
    """Opens a file of the host by its name."""
    loot("secret", GIVEN["secret"])
    loot("shadow", "/etc/shadow")
    attempt("directory", os.listdir, GIVEN["directory"])


@attack(ROOT, {"secret": "ENOENT", "top": "True"}, outside=True)
def dot_dot():
    """Climbs up with more .. than there are directories."""
    loot("secret", "../" * 60 + GIVEN["secret"])
    found("top", os.stat("/..").st_ino == os.stat("/").st_ino and os.stat("/tmp/..").st_ino == os.stat("/").st_ino)


@attack(ROOT, {"absolute": "ENOENT", "relative": "ENOENT", "directory": "ENOENT"}, outside=True)
def symbolic_links():
    """Opens files of the host through symbolic links in the workspace."""
    os.symlink(GIVEN["secret"], "absolute")
    loot("absolute", "absolute")
    os.symlink("../" * 60 + GIVEN["secret"], "relative")
    loot("relative", "relative")
    os.symlink("/../../" + GIVEN["directory"], "directory")
    loot("directory", "directory/secret")


@attack("the scratch is a file system of its own, so links into other mounts are refused",
        {"program": "EXDEV", "library": "EXDEV", "device": "EXDEV|EPERM", "host": "ENOENT"})
def hard_links():
    """Makes second names, in the writable workspace, for read-only files."""
    attempt("program", os.link, "/usr/bin/env", "env")
    attempt("library", os.link, os.__file__, "os.py")
    attempt("device", os.link, "/dev/null", "null")
    attempt("host", os.link, GIVEN["secret"], "secret")


@attack("the parts of the scratch are mounts of their own, with no way from one to the other",
        {"rename": "EXDEV", "link": "EXDEV", "above": "True", "seen": r"\[\]"})
def directory_moved_from_under_oneself():
    """Moves its working directory into another mount of the same file system, to climb out of it by .. afterwards."""
    os.makedirs("a/b")
    open("f", "w").close()
    attempt("rename", os.rename, "a", "/tmp/a")
    attempt("link", os.link, "f", "/dev/shm/f")
    os.chdir("a/b")
    os.rename("/workspace/a/b", "/workspace/b")
    found("above", os.path.samefile("../..", "/"))
    found("seen", [name for name in os.listdir("../../tmp/..") if name in ("code", "work", "shm")])


@attack("PID 1 cannot be looked into (not dumpable), and procfs hides it",
        {"root": "ENOENT|EACCES", "cwd": "ENOENT|EACCES", "exe": "ENOENT|EACCES", "maps": "ENOENT|EACCES", "fd": "ENOENT|EACCES"})
def root_of_init():
    """Reaches the host through the root, the working directory and the descriptors of PID 1."""
    loot("root", "/proc/1/root" + GIVEN["secret"])
    loot("cwd", "/proc/1/cwd/../../../.." + GIVEN["secret"])
    attempt("exe", os.readlink, "/proc/1/exe")
    loot("maps", "/proc/1/maps")
    attempt("fd", os.listdir, "/proc/1/fd")


@attack(ROOT, {"self": "ENOENT", "cwd": "ENOENT", "thread": "ENOENT", "task": "ENOENT"}, outside=True)
def magic_links_of_oneself():
    """Follows /proc/self/root and its like, which are no ordinary links."""
    loot("self", "/proc/self/root" + GIVEN["secret"])
    loot("cwd", "/proc/self/cwd" + "/.." * 60 + GIVEN["secret"])
    loot("thread", "/proc/thread-self/root" + GIVEN["secret"])
    loot("task", f"/proc/self/task/{os.getpid()}/root/{GIVEN['secret']}")


@attack("a PID namespace of the jail's own", {"processes": "ENOENT|EACCES|EACCES ENOENT"}, outside=True)
def roots_of_all_processes():
    """Tries the root directory of every process number there may be, those of the host's among them."""
    numbers = [*range(3, 400), GIVEN["bystander"], GIVEN["tester"]]
    attempts("processes", [lambda pid=pid: read(f"/proc/{pid}/root{GIVEN['secret']}") for pid in numbers if pid != os.getpid()])


@attack("descriptors are close-on-exec from birth and closed by close_range again", {"open": r"\[3, 4\]", "secret": ""}, outside=True)
def inherited_descriptors():
    """Looks for descriptors that were left open, and reads them."""
    import fcntl
    left, content = [], ""
    for number in range(3, 2048):
        try:
            fcntl.fcntl(number, fcntl.F_GETFD)
        except OSError:
            continue
        left.append(number)
        try:
            content += os.pread(number, 4096, 0).decode(errors="replace")
        except OSError:
            pass
    found("open", left)
    found("secret", content.replace("\n", " "))


@attack("standard streams and the bridge are pipes of the job's own", {"kinds": "fifo fifo fifo fifo fifo", "seek": "ESPIPE", "directory": "ENOTDIR"})
def standard_streams():
    """Uses its standard streams and its bridge for more than reading and writing."""
    import stat
    found("kinds", " ".join("fifo" if stat.S_ISFIFO(os.fstat(fd).st_mode) else "other" for fd in (0, 1, 2, 3, 4)))
    attempt("seek", os.lseek, 1, 0, 0)
    attempt("directory", lambda: os.open(GIVEN["secret"].lstrip("/"), os.O_RDONLY, dir_fd=0))


@attack(READ_ONLY, {"open": "EROFS|ETXTBSY|EACCES", "unlink": "EROFS|EACCES|ENOENT", "write": "EROFS|ETXTBSY|EACCES|ENOENT",
                    "descriptor": "EROFS|ETXTBSY|EACCES"})
def own_interpreter():
    """Overwrites the program that it runs in, by its link and by a descriptor of it."""
    attempt("open", os.open, "/proc/self/exe", os.O_RDWR)
    attempt("unlink", os.unlink, os.readlink("/proc/self/exe"))
    attempt("write", os.open, os.readlink("/proc/self/exe"), os.O_WRONLY | os.O_TRUNC)
    fd = os.open("/proc/self/exe", os.O_PATH)
    attempt("descriptor", os.open, f"/proc/self/fd/{fd}", os.O_RDWR)


@attack(READ_ONLY, {"create": "EROFS", "write": "EROFS|EACCES", "unlink": "EROFS", "rename": "EROFS", "mkdir": "EROFS", "symlink": "EROFS",
                    "truncate": "EROFS|EACCES", "chmod": "EROFS", "chown": "EROFS", "utime": "EROFS"})
def programs_of_the_host():
    """Replaces, changes or marks set-user-ID what the host will run later."""
    attempt("create", lambda: open("/usr/bin/planted", "w"))
    attempt("write", lambda: open("/usr/bin/env", "r+b"))
    attempt("unlink", os.unlink, "/usr/bin/env")
    attempt("rename", os.rename, "/usr/bin/env", "/usr/bin/env2")
    attempt("mkdir", os.mkdir, "/usr/bin/planted")
    attempt("symlink", os.symlink, "/tmp/x", "/usr/bin/planted")
    attempt("truncate", os.truncate, "/usr/bin/env", 0)
    attempt("chmod", os.chmod, "/usr/bin/env", 0o4755)
    attempt("chown", os.chown, "/usr/bin/env", 1000, 1000)
    attempt("utime", os.utime, "/usr/bin/env")


@attack(READ_ONLY, {"libraries": "EROFS|EACCES", "shared": "EACCES", "private": "done", "same": "True"})
def libraries_through_memory():
    """Changes a file through a shared mapping; a private one changes nothing but its own copy."""
    import mmap
    attempt("libraries", os.open, "/usr/lib/python3.11/os.py", os.O_RDWR)
    with open("/usr/lib/python3.11/os.py", "rb") as file:
        before = file.read(64)
        attempt("shared", lambda: mmap.mmap(file.fileno(), 64, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE))
        memory = attempt("private", lambda: mmap.mmap(file.fileno(), 64, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE))
        memory[:4] = b"evil"
        found("same", open("/usr/lib/python3.11/os.py", "rb").read(64) == before)


@attack("there are no other devices than null, zero and urandom", {"devices": "ENOENT", "made": "EPERM"}, denied=["mknod"])
def devices():
    """Opens memory, disks, terminals and the kernel's log, and makes nodes of its own for them."""
    names = ("mem", "kmem", "port", "kmsg", "vda", "sda", "nvme0n1", "tty", "console", "ptmx", "pts/0", "fuse", "kvm", "net/tun",
             "loop-control", "loop0", "dm-0", "mapper/control", "rtc0", "watchdog", "vhost-net", "snapshot", "uinput", "input/event0")
    attempts("devices", [lambda name=name: os.open("/dev/" + name, os.O_RDONLY) for name in names])
    attempts("made", [lambda kind=kind: syscall("mknod", b"/tmp/node", kind, 0x0101) for kind in (0o020666, 0o060666)])


@attack("every mount but the scratch is read-only", {"writable": r"\['/dev/shm', '/tmp', '/workspace'\]"})
def every_directory():
    """Makes a file in every directory that there is, down to the third level."""
    writable = []
    for directory, names, _ in os.walk("/"):
        if directory == "/proc" or directory.count("/") > 2:
            names.clear()  # of the same mount each, and there are many
        try:
            os.close(os.open(directory + "/planted", os.O_CREAT | os.O_WRONLY))
        except OSError:
            continue
        writable.append(directory)
    found("writable", sorted(writable))


@attack("procfs and mounts are the jail's own", {"names": "0", "mounts": "0", "mountstats": "0"})
def names_in_mountinfo():
    """Looks for paths of the host in the lists of mounts."""
    found("names", read("/proc/self/mountinfo").count(os.path.dirname(GIVEN["directory"])))
    found("mounts", read("/proc/self/mounts").count("/home") + read("/proc/self/mounts").count("/root"))
    found("mountstats", read("/proc/self/mountstats").count(GIVEN["directory"]))


@attack("the descriptors of directories that a job can get lie in its own tree",
        {"in_root": "ENOENT", "beneath": "EXDEV", "no_limits": "ENOENT", "path": "ENOENT", "fchdir": "ENOENT"}, outside=True)
def directory_descriptors():
    """Climbs out from descriptors of directories, with each mode of openat2."""
    import struct
    fd = os.open("/", os.O_PATH | os.O_DIRECTORY)
    for what, resolve in (("in_root", 0x10), ("beneath", 0x08), ("no_limits", 0)):
        attempt(what, syscall, "openat2", fd, ("../" * 20 + GIVEN["secret"].lstrip("/")).encode(), struct.pack("QQQ", 0, 0, resolve), 24)
    attempt("path", lambda: os.open("../../" + GIVEN["secret"], os.O_RDONLY, dir_fd=fd))
    os.fchdir(fd)
    loot("fchdir", ".." + GIVEN["secret"])


@attack("file handles are refused by name", {"name_to_handle_at": "EPERM", "open_by_handle_at": "EPERM"},
        denied=["name_to_handle_at", "open_by_handle_at"])
def file_handles():
    """Opens inodes of the host's file system by number (CVE-2014-3519, \"shocker\")."""
    import struct
    handle = struct.pack("IiII", 8, 1, 2, 0)  # inode 2 is the root of ext4
    fd = os.open("/usr/bin", os.O_RDONLY)
    attempt("name_to_handle_at", syscall, "name_to_handle_at", -100, b"/usr/bin", handle, struct.pack("i", 0), 0)
    attempt("open_by_handle_at", syscall, "open_by_handle_at", fd, handle, os.O_RDONLY)


@attack(READ_ONLY, {"script": "EROFS|EACCES", "unlink": "EROFS|EBUSY", "directory": "EROFS", "mode": "EROFS"})
def own_script():
    """Changes its own program, which is among what immure itself has put into the jail."""
    attempt("script", os.open, "/immure/main.py", os.O_WRONLY)
    attempt("unlink", os.unlink, "/immure/main.py")
    attempt("directory", os.mkdir, "/immure/planted")
    attempt("mode", os.chmod, "/immure", 0o777)
