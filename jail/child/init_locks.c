/* A job's file locks, which the kernel charges to no cgroup and limits by nothing. Runs in PID 1.
 *
 * The filter hands over each call that may take one, and PID 1 lets it go on as long as there is room. A call
 * adds two locks at most (one in the middle of another splits that); so a number of calls is let go on
 * unseen, and when they are used up, the locks that there are give the next number. Who takes locks and gives
 * them back never hears of this; who hoards them is told ENOLCK.
 *
 * What must hold: no POSIX lock is missed. It belongs to a descriptor table, shows in `fdinfo` of the
 * descriptor that it was taken by, and is gone when its owner closes any descriptor of that file: it cannot
 * be moved from one that was not looked at yet to one that was. A table can be moved in two ways. To a task
 * that is born sharing it: so a look counts only if nobody was born meanwhile. And to its process's leader,
 * whose place a thread takes that executes another program: so leaders are looked at last. Threads that share
 * a table are counted once: who shares that of a thread that was looked at and lives had it then already,
 * since a task only ever leaves its table for a new one. In any doubt nothing more is let go on. What may
 * still be missed are the calls under way (one for each task) and locks of flock(2), of which an open file
 * has one at most, while nothing but a mapping or a message holds that file or while it is handed about: the
 * memory of files is the job's own. Locks of open files (F_OFD_SETLK), of which one file may have any number,
 * are never let go on.
 *
 * Raw system calls only, as in init.c. The work is the job's: PID 1 is in its cgroup, and looks for a limited
 * time. */
#include "jail/child/init.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/child/child.h"

#define LOCKS_PER_CALL 2u
/* So many times as many calls, ever, where PID 1 has no procfs to count again. */
#define UNCOUNTED_FACTOR 8u
/* A job that starts processes all the time needs some until nobody is born meanwhile. */
#define LOOKS_NS (4 * NS_PER_S)
/* Enough on a slow and busy machine. Should every pid (32768 at least) be given once meanwhile, the one that
 * was given last would have to be the same again by chance. */
#define LOOK_NS         (2 * NS_PER_S)
#define CHUNK_BYTES     4096
#define NUMBER_TEXT_MAX 24

void init_locks_begin(struct child *child)
{
    const struct jail_plan *plan = child->plan;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const struct jail_step *step = &plan->steps[i];
        if (step->kind == JAIL_STEP_SECCOMP) {
            uint32_t calls = step->seccomp.file_locks / LOCKS_PER_CALL;
            child->locks =
                (struct lock_count){.calls = step->seccomp.locks,
                                    .most = step->seccomp.file_locks,
                                    .calls_left = child->proc >= 0 ? calls : calls * UNCOUNTED_FACTOR};
        }
    }
}

bool init_locks_counts(const struct child *child, const struct seccomp_data *call)
{
    uint32_t bit = 0;
    if (call->nr == SYS_flock) {
        bit = JAIL_LOCK_FLOCK;
    } else if (call->nr == SYS_fcntl) { /* of whose number the kernel reads 32 bits */
        uint32_t command = (uint32_t)call->args[1];
        bit = command == F_SETLK ? JAIL_LOCK_SETLK : command == F_SETLKW ? JAIL_LOCK_SETLKW : 0;
    }
    return (child->locks.calls & bit) != 0;
}

/* The entries of a directory whose names are numbers. */
struct numbers {
    int dir;
    long n, at; /* n < 0: it could not be read */
    char entries[CHUNK_BYTES] __attribute__((aligned(8)));
};

static const char *next_number(struct numbers *numbers)
{
    for (;;) {
        if (numbers->at >= numbers->n) {
            numbers->n = syscall(SYS_getdents64, numbers->dir, numbers->entries, sizeof numbers->entries);
            numbers->at = 0;
        }
        if (numbers->n <= 0) {
            return NULL;
        }
        const struct dirent64 *entry = (const void *)(numbers->entries + numbers->at);
        numbers->at += entry->d_reclen;
        if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9') {
            return entry->d_name;
        }
    }
}

static uint32_t read_number(const char *text)
{
    uint32_t number = 0;
    for (; *text >= '0' && *text <= '9'; text++) {
        number = number * 10 + (uint32_t)(*text - '0');
    }
    return number;
}

static int open_directory(int dir, const char *number, const char *name)
{
    char path[NUMBER_TEXT_MAX + 8];
    size_t length = strnlen(number, NUMBER_TEXT_MAX);
    memcpy(path, number, length);
    memcpy(path + length, name, strlen(name) + 1);
    int fd = openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* True for what an error of a look into a task says: it has ended. */
static bool has_ended(int error)
{
    return error == -ENOENT || error == -ESRCH;
}

struct look {
    uint64_t until_ns;
    uint32_t most, locks;
    uint32_t counted; /* the thread of this process that was counted last; 0: none */
};

/* Adds the lines of a descriptor's `fdinfo` that begin with "lock:". */
static bool count_descriptor(int fdinfo, const char *number, struct look *look)
{
    static const char word[] = "\nlock:";
    CLEANUP(fd_closep) int fd = openat(fdinfo, number, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return has_ended(-errno); /* or has been closed */
    }
    char text[CHUNK_BYTES];
    size_t matched = 0;
    ssize_t n;
    while ((n = read(fd, text, sizeof text)) > 0 && look->locks < look->most) {
        for (ssize_t i = 0; i < n; i++) {
            matched = text[i] == word[matched] ? matched + 1 : text[i] == word[0];
            if (word[matched] == '\0') {
                look->locks++;
                matched = 0;
            }
        }
        if (clock_now_ns() > look->until_ns) {
            return false;
        }
    }
    return n >= 0 || has_ended(-errno);
}

/* False too where that cannot be told: then its locks are counted again. */
static bool shares_counted_table(uint32_t tid, const struct look *look)
{
    return look->counted && syscall(SYS_kcmp, look->counted, tid, KCMP_FILES, 0, 0) == 0;
}

static bool count_task(int tasks, const char *tid, struct look *look)
{
    uint32_t number = read_number(tid);
    if (shares_counted_table(number, look)) {
        return true;
    }
    CLEANUP(fd_closep) int fdinfo = open_directory(tasks, tid, "/fdinfo");
    if (fdinfo < 0) {
        return has_ended(fdinfo); /* it may have made itself unreadable, too */
    }
    struct numbers descriptors = {.dir = fdinfo};
    const char *descriptor;
    while (look->locks < look->most && (descriptor = next_number(&descriptors))) {
        if (!count_descriptor(fdinfo, descriptor, look)) {
            return false;
        }
    }
    look->counted = number;
    return descriptors.n >= 0 || has_ended(-errno);
}

/* Every task but PID 1. */
static bool count_tasks(int proc, struct look *look)
{
    CLEANUP(fd_closep) int root = openat(proc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct numbers processes = {.dir = root}, threads;
    const char *pid, *tid;
    while ((pid = next_number(&processes))) {
        if (strcmp(pid, "1") == 0) {
            continue;
        }
        CLEANUP(fd_closep) int tasks = open_directory(root, pid, "/task");
        if (tasks < 0) {
            if (has_ended(tasks)) {
                continue;
            }
            return false;
        }
        threads.dir = tasks;
        threads.n = threads.at = 0;
        look->counted = 0;
        while ((tid = next_number(&threads))) {
            bool is_leader = strcmp(tid, pid) == 0;
            if (!is_leader && (!count_task(tasks, tid, look) || clock_now_ns() > look->until_ns)) {
                return false;
            }
        }
        if (threads.n < 0 && !has_ended(-errno)) {
            return false;
        }
        if (!count_task(tasks, pid, look) || clock_now_ns() > look->until_ns) {
            return false;
        }
    }
    return processes.n == 0;
}

/* The pid that was given last in this namespace; 0: the kernel does not tell. */
static uint32_t last_pid(int proc)
{
    char text[CHUNK_BYTES];
    CLEANUP(fd_closep) int fd = openat(proc, "loadavg", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (n <= 0) {
        return 0;
    }
    text[n] = '\0';
    const char *last = strrchr(text, ' ');
    return last ? read_number(last + 1) : 0;
}

static bool count_once(int proc, uint32_t most, uint32_t *ret)
{
    struct look look = {.until_ns = clock_now_ns() + LOOK_NS, .most = most};
    uint32_t last = last_pid(proc);
    if (last == 0 || !count_tasks(proc, &look)) {
        return false;
    }
    *ret = look.locks;
    return look.locks >= most || last_pid(proc) == last;
}

bool init_locks_allow(struct child *child)
{
    struct lock_count *locks = &child->locks;
    bool is_known = false;
    uint32_t held = 0;
    uint64_t until_ns = clock_now_ns() + LOOKS_NS;
    while (locks->calls_left == 0 && child->proc >= 0 && !is_known && clock_now_ns() < until_ns) {
        is_known = count_once(child->proc, locks->most, &held);
    }
    if (is_known && held < locks->most) {
        locks->calls_left = (locks->most - held) / LOCKS_PER_CALL;
    }
    if (locks->calls_left == 0) {
        return false;
    }
    locks->calls_left--;
    return true;
}
