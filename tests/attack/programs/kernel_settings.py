"""/proc/sys, sysrq, core_pattern; cgroup file systems; what the kernel tells."""

import os

from attack import attack
from prelude import attempt, attempts, found, read

ABSENT = "the jail's procfs has processes only, is read-only, and there is no sysfs"


@attack(ABSENT, {"open": "ENOENT"})
def core_pattern():
    """Has the kernel start a program of its own, as root of the host, when something crashes."""
    attempts("open", [lambda name=name: os.open(name, os.O_WRONLY) for name in
                      ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hotplug",
                       "/proc/sys/fs/binfmt_misc/register", "/sys/kernel/uevent_helper", "/proc/sys/kernel/core_pipe_limit")])


@attack(ABSENT, {"open": "ENOENT"})
def system_settings():
    """Changes settings of the kernel, of memory and of the network."""
    names = ("kernel/hostname", "kernel/domainname", "kernel/panic", "kernel/randomize_va_space", "kernel/yama/ptrace_scope",
             "kernel/ns_last_pid", "kernel/unprivileged_bpf_disabled", "vm/overcommit_memory", "vm/drop_caches", "vm/mmap_min_addr",
             "net/ipv4/ip_forward", "net/core/rmem_max", "user/max_user_namespaces", "fs/suid_dumpable", "kernel/shmmax")
    attempts("open", [lambda name=name: os.open("/proc/sys/" + name, os.O_WRONLY) for name in names])


@attack(ABSENT, {"trigger": "ENOENT", "sysrq": "ENOENT"})
def sysrq():
    """Reboots, crashes or freezes the host by one letter."""
    attempt("trigger", os.open, "/proc/sysrq-trigger", os.O_WRONLY)
    attempt("sysrq", os.open, "/proc/sys/kernel/sysrq", os.O_WRONLY)


@attack(ABSENT, {"open": "ENOENT"})
def kernel_memory():
    """Reads the kernel's memory, symbols, keys, log and devices."""
    names = ("kcore", "kallsyms", "keys", "key-users", "kmsg", "kpagecount", "kpageflags", "modules", "iomem", "ioports", "slabinfo",
             "vmallocinfo", "timer_list", "sched_debug", "config.gz", "bus/pci/devices", "acpi", "scsi/scsi", "mtrr", "interrupts",
             "cmdline", "mounts/x", "vmstat", "buddyinfo", "pagetypeinfo", "locks", "swaps", "partitions", "diskstats", "net/x",
             "driver/rtc", "irq/0/smp_affinity", "fs/ext4", "latency_stats", "sys", "sysvipc/shm", "tty/drivers")
    attempts("open", [lambda name=name: os.open("/proc/" + name, os.O_RDONLY) for name in names if not name.endswith("/x")])


@attack(ABSENT, {"sys": "ENOENT", "debug": "ENOENT", "firmware": "ENOENT", "security": "ENOENT"})
def system_file_systems():
    """Looks for sysfs, debugfs, tracefs, securityfs, firmware variables."""
    for what, name in (("sys", "/sys/kernel"), ("debug", "/sys/kernel/debug"), ("firmware", "/sys/firmware/efi/efivars"),
                       ("security", "/sys/kernel/security")):
        attempt(what, os.listdir, name)


@attack("there is no cgroup file system in the jail, and none can be mounted",
        {"list": "ENOENT", "procs": "ENOENT", "release": "ENOENT", "max": "ENOENT"})
def cgroup_files():
    """Leaves its cgroup, raises its limits there, and plants a release agent (CVE-2022-0492)."""
    attempt("list", os.listdir, "/sys/fs/cgroup")
    attempt("procs", os.open, "/sys/fs/cgroup/cgroup.procs", os.O_WRONLY)
    attempts("release", [lambda kind=kind: os.open(f"/sys/fs/cgroup/{kind}release_agent", os.O_WRONLY)
                         for kind in ("", "memory/", "rdma/", "pids/", "cpu/")])
    attempts("max", [lambda name=name: os.open("/sys/fs/cgroup/" + name, os.O_WRONLY)
                     for name in ("memory.max", "pids.max", "cpu.max", "cgroup.kill", "cgroup.subtree_control")])


@attack("a cgroup namespace of the jail's own", {"paths": "/"})
def cgroup_path():
    """Learns where in the host's hierarchy it is."""
    found("paths", " ".join(sorted({line.split(":", 2)[2] for line in read("/proc/self/cgroup").splitlines()})))


@attack("procfs is read-only", {"oom_score_adj": "EROFS", "oom_adj": "EROFS", "coredump_filter": "EROFS", "attr": "EROFS", "loginuid": "EROFS",
                                "comm": "EROFS", "autogroup": "EROFS", "mem": "EROFS|EACCES"})
def own_process_files():
    """Writes into its own process's files: escapes the OOM killer, changes its security label and its audit id."""
    for what, name in (("oom_score_adj", "oom_score_adj"), ("oom_adj", "oom_adj"), ("coredump_filter", "coredump_filter"),
                       ("attr", "attr/current"), ("loginuid", "loginuid"), ("comm", "comm"), ("autogroup", "autogroup"), ("mem", "mem")):
        attempt(what, os.open, f"/proc/self/{name}", os.O_WRONLY)


@attack("the kernel hides them from those without capabilities", {"frames": "0", "pointers": "True", "wchan": "0?"})
def kernel_addresses():
    """Reads physical frames and kernel addresses from its own process's files."""
    import struct
    frames = set()
    with open("/proc/self/pagemap", "rb") as pagemap, open("/proc/self/maps") as maps:
        for line in list(maps)[:20]:
            pagemap.seek(int(line.split("-")[0], 16) // 4096 * 8)
            entry = pagemap.read(8)
            if len(entry) == 8:
                frames.add(struct.unpack("Q", entry)[0] & (1 << 55) - 1)
    found("frames", " ".join(map(str, frames)))
    try:
        stack = read("/proc/self/stack")
    except OSError:
        stack = ""
    found("pointers", "0xffff" not in stack)
    found("wchan", read("/proc/self/wchan"))


@attack(ABSENT, {"ids": "ENOENT", "name": "immure"})
def identity_of_the_host():
    """Finds out on which host it is."""
    names = ("/etc/machine-id", "/etc/hostname", "/proc/sys/kernel/random/boot_id", "/sys/class/dmi/id/product_uuid", "/.dockerenv",
             "/var/lib/dbus/machine-id", "/sys/class/net", "/etc/resolv.conf", "/run/secrets", "/var/run/docker.sock", "/proc/version")
    attempts("ids", [lambda name=name: os.stat(name) for name in names])
    found("name", os.uname().nodename)
