/* The table of a jail's denied system calls, both sides of it. PID 1 of a jail makes it when the first call
 * is denied, maps it and sends the file to its parent (the warden, `immure run`), which reads it with the
 * verdict. A jail that denies nothing pays nothing for it, and one that is killed whole has still said what
 * it denied.
 *
 * What must hold: the program never has it. PID 1 makes it when the program's process has memory and
 * descriptors of its own, closes the file at once, and can neither be read nor traced. The parent takes
 * nothing for granted: a file that blocks, shrinks or never ends is none that it reads. */
#include "jail/child/denied.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TABLE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static int make_file(int fd, struct denied_table **ret, const char **ret_call)
{
    *ret_call = "ftruncate";
    if (ftruncate(fd, sizeof **ret) < 0) {
        return -errno;
    }
    *ret_call = "F_ADD_SEALS";
    if (fcntl(fd, F_ADD_SEALS, TABLE_SEALS) < 0) {
        return -errno;
    }
    *ret_call = "mmap";
    void *mapped = mmap(NULL, sizeof **ret, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) {
        return -errno;
    }
    *ret = mapped;
    return 0;
}

int denied_new(struct denied_table **ret, int *ret_fd, const char **ret_call)
{
    *ret_call = "memfd_create";
    int fd = memfd_create("denied", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return -errno;
    }
    int r = make_file(fd, ret, ret_call);
    if (r < 0) {
        close(fd);
        return r;
    }
    *ret_fd = fd;
    return 0;
}

unsigned denied_told_arguments(int32_t nr)
{
    enum { FIRST = 1, SECOND = 2, THIRD = 4, FOURTH = 8 };
    switch (nr) {
    case SYS_clone:
    case SYS_unshare:
    case SYS_prctl:
    case SYS_setrlimit:
    case SYS_getrlimit:
    case SYS_personality:
    case SYS_membarrier:
    case SYS_seccomp:
    case SYS_ptrace:
    case SYS_clock_gettime:
    case SYS_clock_settime:
    case SYS_clock_nanosleep:
    case SYS_timer_create:
    case SYS_timerfd_create:
    case SYS_bpf:
        return FIRST;
    case SYS_setns:
    case SYS_ioctl:
    case SYS_fcntl:
    case SYS_memfd_create:
    case SYS_futex:
#ifdef SYS_open
    case SYS_open:
    case SYS_mknod:
#endif
        return SECOND;
    case SYS_openat:
    case SYS_mknodat:
    case SYS_madvise:
    case SYS_mprotect:
    case SYS_sendmsg:
    case SYS_recvmsg:
        return THIRD;
    case SYS_sendto:
    case SYS_recvfrom:
    case SYS_sendmmsg:
    case SYS_recvmmsg:
        return FOURTH;
    case SYS_prlimit64:
        return FIRST | SECOND;
    case SYS_setsockopt:
    case SYS_getsockopt:
        return SECOND | THIRD;
    case SYS_mmap:
        return THIRD | FOURTH;
    case SYS_socket:
    case SYS_socketpair:
        return FIRST | SECOND | THIRD;
    default:
        return 0;
    }
}

static void count_call(struct denied_table *table, const struct seccomp_data *data, bool ends)
{
    struct jail_denied_call call = {.nr = data->nr, .arch = data->arch, .count = 1, .ended = ends};
    unsigned told = denied_told_arguments(call.nr), alike = 0;
    for (unsigned i = 0; i < sizeof call.args / sizeof call.args[0]; i++) {
        call.args[i] = told & 1u << i ? data->args[i] : 0;
    }
    for (uint32_t i = 0; i < table->n_calls; i++) {
        struct jail_denied_call *row = &table->calls[i];
        if (row->nr != call.nr || row->arch != call.arch) {
            continue;
        }
        if (memcmp(row->args, call.args, sizeof call.args) == 0) {
            row->count++;
            row->ended += ends;
            return;
        }
        alike++;
    }
    if (table->n_calls < JAIL_DENIED_CALLS_MAX && alike < JAIL_DENIED_EACH_MAX) {
        table->calls[table->n_calls] = call;
        __atomic_store_n(&table->n_calls, table->n_calls + 1, __ATOMIC_RELEASE);
    } else if (ends) {
        table->calls[table->n_calls - 1] = call; /* the one that matters most */
    }
}

static void count_row(struct denied_table *table, int32_t nr, uint32_t arch)
{
    uint32_t n = table->n_rows;
    for (uint32_t i = 0; i < n; i++) {
        if (table->rows[i].nr == nr && table->rows[i].arch == arch) {
            table->rows[i].count++;
            return;
        }
    }
    if (n == JAIL_DENIED_MAX) {
        table->rows[JAIL_DENIED_MAX - 1].count++;
        return;
    }
    /* The last row counts all that find no row of their own. */
    table->rows[n] = n == JAIL_DENIED_MAX - 1 ? (struct jail_denied){.nr = -1, .count = 1}
                                              : (struct jail_denied){.nr = nr, .arch = arch, .count = 1};
    /* The row before its number: we may be killed in between. */
    __atomic_store_n(&table->n_rows, n + 1, __ATOMIC_RELEASE);
}

void denied_count(struct denied_table *table, const struct seccomp_data *call, bool ends)
{
    count_row(table, call->nr, call->arch);
    count_call(table, call, ends);
}

void denied_clear(struct denied_table *table)
{
    __atomic_store_n(&table->n_rows, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&table->n_calls, 0, __ATOMIC_RELEASE);
}

bool denied_is_table(int fd)
{
    struct stat stat;
    return fcntl(fd, F_GET_SEALS) == TABLE_SEALS && (fcntl(fd, F_GETFL) & O_ACCMODE) != O_WRONLY &&
           fstat(fd, &stat) == 0 && stat.st_size == (off_t)sizeof(struct denied_table);
}

int denied_read(int fd, struct denied_table *ret)
{
    ssize_t n = pread(fd, ret, sizeof *ret, 0);
    if (n < 0) {
        return -errno;
    }
    if (n != (ssize_t)sizeof *ret || ret->n_rows > JAIL_DENIED_MAX || ret->n_calls > JAIL_DENIED_CALLS_MAX) {
        ret->n_rows = ret->n_calls = 0;
    }
    return 0;
}
