"""Leaving or making namespaces; mounting, pivoting, making read-only writable."""

import os

from attack import attack
from prelude import attempt, attempts, found, refused, syscall

FILTER = "the filter allows none of these calls"


@attack(FILTER, {"unshare": "EPERM"}, denied={"unshare": 9}, unfiltered=True)
def unshare_each():
    """Makes each kind of namespace, and all at once. (A user namespace would bring every capability back.)"""
    kinds = (0x10000000, 0x20000, 0x20000000, 0x40000000, 0x8000000, 0x4000000, 0x2000000, 0x80, 0x7E020080)
    attempts("unshare", [lambda kind=kind: syscall("unshare", kind) for kind in kinds])


@attack("clone's flags are looked at", {"clone": "EPERM"}, denied={"clone": 8})
def clone_with_flags():
    """Makes a child in new namespaces."""
    kinds = (0x10000000, 0x20000, 0x20000000, 0x40000000, 0x8000000, 0x4000000, 0x2000000)
    attempts("clone", [lambda kind=kind: syscall("clone", kind | 17, 0, 0, 0, 0)
                       or os._exit(0) for kind in (*kinds, 0x10000000 | 0xFFFFFFFF << 32)])


@attack("clone3's flags lie in memory, so it is refused as a whole", {"clone3": "ENOSYS"})
def clone3_with_flags():
    """Makes a child in new namespaces by the call whose flags a filter cannot see."""
    import struct
    sizes = (64, 80, 88)
    attempts("clone3", [lambda size=size: syscall("clone3", struct.pack("11Q", 0x10000000, *[0] * 3, 17, *[0] * 6), size)
                        or os._exit(0) for size in sizes])


@attack("the filter looks at all 64 bits of clone's flags; CLONE_PARENT is refused", {"parent": "EPERM"}, denied=["clone"])
def sibling():
    """Makes a child of PID 1's, which would be told of an end that is not the program's."""
    attempt("parent", lambda: syscall("clone", 0x8000 | 17, 0, 0, 0, 0) or os._exit(0))


@attack(FILTER, {"own": "EPERM", "pidfd": "EPERM", "zero": "EPERM"}, denied={"setns": 9}, unfiltered=True)
def setns_to():
    """Enters namespaces by their files and by a descriptor of PID 1."""
    names = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")
    attempts("own", [lambda name=name: syscall("setns", os.open(f"/proc/self/ns/{name}", os.O_RDONLY), 0) for name in names])
    attempt("pidfd", syscall, "setns", os.pidfd_open(1), 0x20000)
    attempt("zero", syscall, "setns", 0, 0)


@attack("ioctl is refused but for a few numbers", {"parent": "EPERM", "user": "EPERM"}, denied={"ioctl": 2})
def parent_namespaces():
    """Asks the kernel for the namespaces above its own."""
    import fcntl
    fd = os.open("/proc/self/ns/user", os.O_RDONLY)
    attempt("parent", fcntl.ioctl, fd, 0xB702)
    attempt("user", fcntl.ioctl, fd, 0xB701)


@attack(FILTER, {"mount": "EPERM"}, denied={"mount": 7}, unfiltered=True)
def mount_each():
    """Mounts procfs, sysfs, tmpfs, cgroup2, overlay, a disk; binds the root."""
    kinds = (b"proc", b"sysfs", b"tmpfs", b"cgroup2", b"overlay", b"ext4")
    attempts("mount", [*(lambda kind=kind: syscall("mount", b"none", b"/tmp", kind, 0, 0) for kind in kinds),
                       lambda: syscall("mount", b"/", b"/tmp", 0, 0x1000, 0)])


@attack(FILTER, {"remount": "EPERM", "write": "EROFS"}, denied={"mount": 4}, unfiltered=True)
def remount_writable():
    """Takes the read-only flag off its mounts."""
    places = (b"/", b"/usr/bin", b"/proc", b"/usr/lib/python3.11")
    attempts("remount", [lambda place=place: syscall("mount", b"none", place, 0, 0x1020, 0) for place in places])
    attempt("write", os.mkdir, "/usr/bin/planted")


@attack(FILTER, {"umount2": "EPERM"}, denied={"umount2": 6}, unfiltered=True)
def unmount():
    """Unmounts what lies over something else: the procfs over a template's, /tmp over the scratch's root, all of /."""
    attempts("umount2", [lambda place=place, flags=flags: syscall("umount2", place, flags)
                         for place in (b"/proc", b"/tmp", b"/") for flags in (0, 2)])


@attack(FILTER, {"pivot_root": "EPERM", "chroot": "EPERM"}, denied=["pivot_root", "chroot"], unfiltered=True)
def other_root():
    """Takes another root, and leaves a chroot the classic way."""
    os.mkdir("d")
    refused(("pivot_root", b".", b"d"), ("chroot", b"d"))


@attack(FILTER, {name: "EPERM" for name in ("open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr")},
        denied=["open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr"], unfiltered=True)
def new_mount_api():
    """Clones a mount tree, makes file systems, and changes the attributes of whole trees."""
    import struct
    refused(("open_tree", -100, b"/", 1), ("move_mount", -100, b"/usr/bin", -100, b"/tmp", 0), ("fsopen", b"tmpfs", 0),
            ("fsconfig", 0, 6, 0, 0, 0), ("fsmount", 0, 0, 0), ("fspick", -100, b"/", 0),
            ("mount_setattr", -100, b"/", 0x8000, struct.pack("4Q", 0, 1, 0, 0), 32))


@attack(FILTER, {"statmount": "EPERM", "listmount": "EPERM"}, denied=["statmount", "listmount"])
def list_mounts():
    """Lists the mounts of the namespace above."""
    import struct
    request = struct.pack("IIQQ", 24, 0, 0xFFFFFFFFFFFFFFFF, 0)
    refused(("statmount", request, bytes(512), 512, 0), ("listmount", request, bytes(512), 64, 0))


@attack("the maps of a user namespace are written once, and procfs is read-only",
        {"uid_map": "EROFS", "gid_map": "EROFS", "setgroups": "EROFS", "timens": "EROFS"})
def id_maps():
    """Writes itself other ids, and other clocks, into its namespaces."""
    for what, name in (("uid_map", "uid_map"), ("gid_map", "gid_map"), ("setgroups", "setgroups"), ("timens", "timens_offsets")):
        attempt(what, os.open, f"/proc/self/{name}", os.O_WRONLY)


@attack("the tools of the host are as powerless as the program", {"unshare": "1", "nsenter": "1", "mount": "[1-9][0-9]*"},
        denied=None)
def tools():
    """Runs unshare, nsenter and mount from /usr/bin."""
    import subprocess
    for what, argv in (("unshare", ["unshare", "-Ur", "true"]), ("nsenter", ["nsenter", "-t", "1", "-a", "true"]),
                       ("mount", ["mount", "-t", "tmpfs", "none", "/tmp"])):
        found(what, subprocess.run(argv, capture_output=True).returncode)


@attack("names are the jail's, and cannot be changed", {"sethostname": "EPERM", "setdomainname": "EPERM", "name": "immure"},
        denied=["sethostname", "setdomainname"], unfiltered=True)
def host_name():
    """Renames the host."""
    import socket
    refused(("sethostname", b"owned", 5), ("setdomainname", b"owned", 5))
    found("name", socket.gethostname())


@attack("a mount namespace of the jail's own, its propagation private", {"seen": "False"})
def propagation():
    """Looks for mounts that would carry what is mounted outside in here, or the other way round."""
    with open("/proc/self/mountinfo") as mounts:
        found("seen", any(word.startswith(("shared:", "master:", "propagate_from:")) for line in mounts for word in line.split()))


@attack("the scratch cannot be mounted over or removed", {"workspace": "EBUSY|EROFS|EPERM|EACCES", "tmp": "EBUSY|EXDEV|EROFS|EPERM|EACCES",
                                                         "replaced": "EBUSY|EROFS|EXDEV|EPERM|EACCES"})
def mount_points():
    """Removes and renames the directories that things are mounted on."""
    os.chdir("/")
    attempt("workspace", os.rmdir, "/workspace")
    attempt("tmp", os.rename, "/tmp", "/workspace/tmp")
    attempt("replaced", os.rename, "/dev/shm", "/dev/shn")
