/* A table: the groups of system calls that units name, as systemd 252 has them, without calls that neither
 * x86_64 nor aarch64 has. Runs in the command line. tests/jail/test_policy_import.py holds it to what systemd
 * says. */
#include <string.h>

#include "jail/base/cleanup.h"
#include "policy/import/formats.h"

static const struct {
    const char *name, *calls;
} groups[] = {
    {"@aio",
     "io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit io_uring_enter io_uring_register "
     "io_uring_setup"},
    {"@basic-io",
     "close close_range dup dup2 dup3 lseek pread64 preadv preadv2 pwrite64 pwritev pwritev2 read readv "
     "write writev"},
    {"@chown", "chown fchown fchownat lchown"},
    {"@clock", "adjtimex clock_adjtime clock_settime settimeofday"},
    {"@cpu-emulation", "modify_ldt"},
    {"@debug", "lookup_dcookie perf_event_open pidfd_getfd ptrace"},
    {"@default",
     "arch_prctl brk clock_getres clock_gettime clock_nanosleep execve exit exit_group futex futex_waitv "
     "get_robust_list get_thread_area getegid geteuid getgid getgroups getpgid getpgrp getpid getppid "
     "getrandom getresgid getresuid getrlimit getsid gettid gettimeofday getuid membarrier mmap mprotect "
     "munmap nanosleep pause prlimit64 restart_syscall rseq rt_sigreturn sched_getaffinity sched_yield "
     "set_robust_list set_thread_area set_tid_address time"},
    {"@file-system",
     "access chdir chmod close creat faccessat faccessat2 fallocate fchdir fchmod fchmodat fchmodat2 fcntl "
     "fgetxattr flistxattr fremovexattr fsetxattr fstat fstatfs ftruncate futimesat getcwd getdents "
     "getdents64 getxattr inotify_add_watch inotify_init inotify_init1 inotify_rm_watch lgetxattr link "
     "linkat listxattr llistxattr lremovexattr lsetxattr lstat mkdir mkdirat mknod mknodat newfstatat open "
     "openat openat2 readlink readlinkat removexattr rename renameat renameat2 rmdir setxattr stat statfs "
     "statx symlink symlinkat truncate unlink unlinkat utime utimensat utimes"},
    {"@io-event", "epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait "
                  "epoll_wait_old eventfd eventfd2 poll ppoll pselect6 select"},
    {"@ipc",
     "memfd_create mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink msgctl msgget "
     "msgrcv msgsnd pipe pipe2 process_madvise process_vm_readv process_vm_writev semctl semget semop "
     "semtimedop shmat shmctl shmdt shmget"},
    {"@keyring", "add_key keyctl request_key"},
    {"@memlock", "mlock mlock2 mlockall munlock munlockall"},
    {"@module", "delete_module finit_module init_module"},
    {"@mount",
     "chroot fsconfig fsmount fsopen fspick mount mount_setattr move_mount open_tree pivot_root umount2"},
    {"@network-io",
     "accept accept4 bind connect getpeername getsockname getsockopt listen recvfrom recvmmsg recvmsg "
     "sendmmsg sendmsg sendto setsockopt shutdown socket socketpair"},
    {"@obsolete",
     "_sysctl afs_syscall create_module get_kernel_syms getpmsg putpmsg query_module security sysfs "
     "tuxcall uselib ustat vserver"},
    {"@pkey", "pkey_alloc pkey_free pkey_mprotect"},
    {"@privileged",
     "@chown @clock @module @raw-io @reboot @swap _sysctl acct bpf capset chroot fanotify_init "
     "fanotify_mark nfsservctl open_by_handle_at pivot_root quotactl quotactl_fd setdomainname setfsuid "
     "setgroups sethostname setresuid setreuid setuid vhangup"},
    {"@process",
     "capget clone clone3 execveat fork getrusage kill pidfd_open pidfd_send_signal prctl rt_sigqueueinfo "
     "rt_tgsigqueueinfo setns tgkill times tkill unshare vfork wait4 waitid"},
    {"@raw-io", "ioperm iopl"},
    {"@reboot", "kexec_file_load kexec_load reboot"},
    {"@resources", "ioprio_set mbind migrate_pages move_pages sched_setaffinity sched_setattr sched_setparam "
                   "sched_setscheduler set_mempolicy set_mempolicy_home_node setpriority setrlimit"},
    {"@setuid", "setgid setgroups setregid setresgid setresuid setreuid setuid"},
    {"@signal",
     "rt_sigaction rt_sigpending rt_sigprocmask rt_sigsuspend rt_sigtimedwait sigaltstack signalfd "
     "signalfd4"},
    {"@swap", "swapoff swapon"},
    {"@sync", "fdatasync fsync msync sync sync_file_range syncfs"},
    {"@system-service",
     "@aio @basic-io @chown @default @file-system @io-event @ipc @keyring @memlock @network-io @process "
     "@resources @setuid @signal @sync @timer capget capset copy_file_range fadvise64 flock get_mempolicy "
     "getcpu getpriority ioctl ioprio_get kcmp madvise mremap name_to_handle_at personality readahead "
     "remap_file_pages sched_get_priority_max sched_get_priority_min sched_getattr sched_getparam "
     "sched_getscheduler sched_rr_get_interval sched_yield sendfile setfsgid setfsuid setpgid setsid "
     "splice sysinfo tee umask uname userfaultfd vmsplice"},
    {"@timer",
     "alarm getitimer setitimer timer_create timer_delete timer_getoverrun timer_gettime timer_settime "
     "timerfd_create timerfd_gettime timerfd_settime times"},
};

const char *systemd_group(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
        if (strcmp(groups[i].name, name) == 0) {
            return groups[i].calls;
        }
    }
    return NULL;
}
