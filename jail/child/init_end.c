/* How the program ended, known before the kernel has taken its memory apart. Runs in PID 1.
 *
 * An interpreter's address space takes the kernel longer to free than a short program runs, and only then can
 * its parent wait for it. But nothing of the jail runs any more as soon as every process has begun to exit,
 * and of that the kernel tells earlier: the listener of a filter hangs up when no process is left that could
 * run behind it, and in a jail all but PID 1 do (Linux 6.11; before, it hangs up when all have been waited
 * for, and nothing here comes to pass). The wait status is in /proc by then.
 *
 * What must hold: in any doubt the answer is no, and PID 1 waits for the program as ever. One doubt cannot be
 * had: a child that has made itself unreadable (PR_SET_DUMPABLE) and ends at the same time as the program
 * need not be in our /proc. The program's end is exact then, too; the child's CPU time is missing in ours,
 * which counts where there is no cgroup. Raw system calls only, as in init.c. */
#include "jail/child/init.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/child/child.h"

/* Places in /proc/PID/stat as proc_pid_stat(5) counts them, from 1. */
enum stat_field {
    STAT_CHILDREN_MINOR_FAULTS = 11,
    STAT_CHILDREN_MAJOR_FAULTS = 13,
    STAT_CHILDREN_USER_TIME = 16,
    STAT_CHILDREN_SYSTEM_TIME = 17,
    STAT_MEMORY_BYTES = 23,
    STAT_EXIT_CODE = 52,
    STAT_FIELDS,
};

#define STAT_BEHIND_NAME 3 /* the field behind the name, which may hold blanks and parentheses itself */
#define STAT_TEXT_MAX    1024
#define LOOKS            8
#define NUMBER_TEXT_MAX  16
#define LINK_TEXT_MAX    64

static void write_number(char to[NUMBER_TEXT_MAX], pid_t number)
{
    char digits[NUMBER_TEXT_MAX];
    size_t n = 0;
    do {
        digits[n++] = (char)('0' + number % 10);
    } while ((number /= 10) > 0);
    while (n > 0) {
        *to++ = digits[--n];
    }
    *to = '\0';
}

/* False where this is not what the kernel writes today. */
static bool read_stat(int fd, uint64_t ret[STAT_FIELDS])
{
    char text[STAT_TEXT_MAX];
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    if (n <= 0) {
        return false;
    }
    text[n] = '\0';
    const char *at = strrchr(text, ')');
    for (int field = STAT_BEHIND_NAME; field < STAT_FIELDS; field++) {
        at = at ? strchr(at, ' ') : NULL;
        if (!at) {
            return false;
        }
        ret[field] = 0;
        for (at++; *at >= '0' && *at <= '9'; at++) {
            ret[field] = ret[field] * 10 + (uint64_t)(*at - '0');
        }
    }
    return true;
}

/* A procfs that counts as we do: one of the host would tell of somebody else's process. */
static bool is_own_proc(int proc)
{
    struct statfs fs;
    char self[2];
    return fstatfs(proc, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC &&
           readlinkat(proc, "self", self, sizeof self) == 1 && self[0] == '1';
}

/* Is there any process but PID 1 and the program, ended or not? One that has made its memory unreadable is
 * not shown while it still has that memory, and by newer kernels not afterwards either. */
static bool has_others(int proc)
{
    char entries[1024] __attribute__((aligned(8)));
    long n, count = 0;
    if (lseek(proc, 0, SEEK_SET) < 0) {
        return true;
    }
    while ((n = syscall(SYS_getdents64, proc, entries, sizeof entries)) > 0) {
        for (long at = 0; at < n;) {
            const struct dirent64 *entry = (const void *)(entries + at);
            count += entry->d_name[0] >= '0' && entry->d_name[0] <= '9';
            at += entry->d_reclen;
        }
    }
    return n < 0 || count != 2;
}

/* CPU time of the program's threads; of its children the kernel tells only who waits for it. */
static bool read_cpu(pid_t program, const uint64_t fields[STAT_FIELDS], uint64_t *ret_ns)
{
    clockid_t clock;
    struct timespec used;
    if (fields[STAT_CHILDREN_MINOR_FAULTS] || fields[STAT_CHILDREN_MAJOR_FAULTS] ||
        fields[STAT_CHILDREN_USER_TIME] || fields[STAT_CHILDREN_SYSTEM_TIME] ||
        clock_getcpuclockid(program, &clock) != 0 || clock_gettime(clock, &used) < 0) {
        return false;
    }
    *ret_ns = (uint64_t)used.tv_sec * NS_PER_S + (uint64_t)used.tv_nsec;
    return true;
}

/* Whoever may not see a process's exit code reads 0 in its place, but is refused this link. Once there is no
 * memory any more that might not be readable, whoever may see it now may see it ever after. */
static bool may_see(int process)
{
    char link[LINK_TEXT_MAX];
    return readlinkat(process, "ns/user", link, sizeof link) > 0;
}

/* The memory has gone, and before it the program's exit code was set. But a read that finds no memory may
 * have begun when there still was some, and have looked for the exit code then: only the next one is to be
 * believed. */
static bool read_end(int process, int stat, uint64_t ret[STAT_FIELDS])
{
    return may_see(process) && read_stat(stat, ret) && ret[STAT_MEMORY_BYTES] == 0;
}

static bool open_sight(const struct child *child, pid_t program, struct end_sight *ret)
{
    char number[NUMBER_TEXT_MAX];
    write_number(number, program);
    ret->proc = child->proc >= 0 ? openat(child->proc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                                 : open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (ret->proc < 0 || !is_own_proc(ret->proc)) {
        return false;
    }
    ret->process = openat(ret->proc, number, O_PATH | O_DIRECTORY | O_CLOEXEC);
    ret->stat = ret->process < 0 ? -1 : openat(ret->process, "stat", O_RDONLY | O_CLOEXEC);
    return ret->stat >= 0;
}

bool init_end_prepare(const struct child *child, pid_t program, struct end_sight *sight)
{
    /* Who shares a workspace may be waiting for a lock that goes with a descriptor, later than the memory. */
    if (child->waits_for_all || jail_plan_has(child->plan, JAIL_STEP_WORKSPACE)) {
        return false;
    }
    if (sight->stat >= 0) {
        return true;
    }
    if (open_sight(child, program, sight)) {
        has_others(sight->proc); /* what the kernel has listed once, it lists sooner */
        return true;
    }
    fd_closep(&sight->proc);
    fd_closep(&sight->process);
    return false;
}

bool init_end_known(const struct child *child, pid_t program, struct end_sight *sight, int32_t *ret_wstatus,
                    uint64_t *ret_cpu_ns)
{
    if (!init_end_prepare(child, program, sight) || has_others(sight->proc)) {
        return false;
    }
    for (int look = 0; look < LOOKS; look++) {
        uint64_t fields[STAT_FIELDS];
        if (!read_stat(sight->stat, fields)) {
            return false;
        }
        if (fields[STAT_MEMORY_BYTES] == 0) {
            /* Again: whoever was not shown while it could not be read may be by now. */
            if (!read_end(sight->process, sight->stat, fields) || has_others(sight->proc)) {
                return false;
            }
            *ret_wstatus = (int32_t)fields[STAT_EXIT_CODE];
            return read_cpu(program, fields, ret_cpu_ns);
        }
        sched_yield(); /* it may need our processor to go on */
    }
    return false;
}
