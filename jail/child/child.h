/* What the two processes inside a jail share while it is being built, and the words they exchange with the
 * parent.
 *
 * Everything declared here runs between clone and exec, in a copy of the parent's memory without its heap:
 * raw system calls only, no malloc, no stdio, no locks, no logging. Errors are negative errno values; the
 * parent writes the sentences. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "jail/plan/plan.h"

struct denied_table;
struct seccomp_data;
struct seccomp_notif;

/* Barriers: what the parent tells the child, in this order. */
enum jail_phase {
    PHASE_IDMAP,     /* uid_map and gid_map are written: build */
    PHASE_NETWORK,   /* the network namespace to enter comes along; if not, make one */
    PHASE_LOOPBACK,  /* lo is up (`error` 0) or is not */
    PHASE_RUN,       /* a standby jail's program comes along, with its pipes */
    PHASE_INTERRUPT, /* a kernel's program is to be interrupted, if it still runs */
};

/* How far the launcher of a standby jail is. */
enum standby_state {
    STANDBY_NONE,     /* this is no standby jail */
    STANDBY_STARTING, /* it starts its interpreter */
    STANDBY_PARKED,   /* it waits in a system call that PID 1 has not answered */
    STANDBY_DONE,     /* it runs its program */
};

/* What PID 1 knows of the job's file locks (init_locks.c). */
struct lock_count {
    uint32_t calls;      /* JAIL_LOCK_*: those that are counted */
    uint32_t most;       /* locks */
    uint32_t calls_left; /* that may be made before the locks are counted again */
};

struct parent_message {
    enum jail_phase phase;
    int32_t error; /* positive errno, 0: done */
};

enum child_message_kind {
    CHILD_CLONED,   /* a template has made PID 1 of this jail: its pidfd comes with this message */
    CHILD_PARKED,   /* the jail is built, its program's process waits for a program; a kernel's, for another:
                       time_ns, wstatus */
    CHILD_LOOPBACK, /* bring lo up through the netlink socket that comes with this message */
    CHILD_FAILED,   /* a step failed: step, call, error */
    CHILD_STARTED,  /* the program has been exec'd: time_ns */
    CHILD_DENIED,   /* a system call was denied, the first: the table comes with this message (denied.h) */
    CHILD_ENDED,    /* the program has ended: time_ns, wstatus; comes again once is_alone */
};

#define CHILD_CALL_MAX 24

struct child_message {
    enum child_message_kind kind;
    uint32_t step;
    int32_t error; /* positive errno */
    char call[CHILD_CALL_MAX];
    uint64_t time_ns;
    int32_t wstatus;
    bool is_alone;   /* ENDED: and so have all others; nothing is left but PID 1, which exits */
    uint64_t cpu_ns; /* ENDED, is_alone: of the whole jail */
    bool proc_absent;
};

/* The child's whole state. Filled by the parent before clone, except where noted. */
struct child {
    const struct jail_plan *plan;
    int fds[JAIL_FD_COUNT];
    int control; /* SOCK_SEQPACKET to the parent; close-on-exec, so the program never has it */
    bool drop_groups;
    bool waits_for_all;  /* the parent has no use for an early verdict */
    bool in_process;     /* a template's copy: its signal dispositions are the interpreter's own */
    bool files_late;     /* so is this: RLIMIT_NOFILE is set when the listener has been sent */
    bool template;       /* its program is one */
    char **argv, **envp; /* of the EXEC step, ending with NULL */
    enum standby_state standby;
    bool kernel; /* a standby jail whose launcher waits again after its program */

    /* The child's own. */
    int root;     /* the new root tmpfs */
    int parent;   /* the directory in it that a step has opened last, by `parent_path`; -1: none */
    int listener; /* seccomp user notification; -1: none */
    struct denied_table *denied; /* NULL: no call of the job has been denied yet */
    int proc;                    /* PID 1's own procfs, attached nowhere, where it is of use; -1: none */
    struct lock_count locks;
    bool proc_absent;
    char parent_path[PATH_MAX];
    const char *call;      /* the system call under way, for the error */
    uint64_t standby_call; /* STANDBY_PARKED: the id of the launcher's call */
    bool interrupted;      /* a kernel's program has been, and its launcher may not know yet */
    int program_fd;        /* the file that a kernel's last program came in; -1: none yet */
    /* Set by the program's process, which shares memory with PID 1 until exec. */
    uint32_t failed_step;
    int failed_error; /* positive errno; 0: exec happened */
};

/* PID 1's entry: waits for PHASE_IDMAP, applies the plan, stays behind as init. Never returns. */
void child_main(struct child *child) __attribute__((noreturn));

/* Applies steps from `*index` on, up to and without the first one of kind `stop` (JAIL_STEP_COUNT: to the
 * end). `*index` is where it stopped or failed. */
int child_apply(struct child *child, uint32_t *index, enum jail_step_kind stop);

/* Applies one step. */
int child_apply_step(struct child *child, const struct jail_step *step);

int child_send(const struct child *child, const struct child_message *message, int fd);
int child_receive(const struct child *child, enum jail_phase phase);

/* PID 1's life once the jail is built: makes the program's process, which applies the steps behind `index`;
 * reports its start or failure; answers denied system calls; reaps; reports the end. Never returns. */
void init_main(struct child *child, uint32_t index) __attribute__((noreturn));

/* The two halves of that, for a program whose process comes to be in another way. Before it does: a
 * descriptor that tells of children's ends, or -errno; SIGCHLD is blocked from here on. */
int init_watch_children(struct child *child);
/* Afterwards: serves until it ends, and reports that with what `end` holds. `signals` is that descriptor,
 * `listener_source` (-1: none) a socket over which the seccomp listener may come. Never returns. */
void init_serve(struct child *child, pid_t program, int signals, int listener_source,
                struct child_message *end) __attribute__((noreturn));

/* Answers a system call that the filter handed to us with `error`, a positive errno. */
void init_deny(const struct child *child, uint64_t id, int error);

/* What PID 1 sees the program's end by, without waiting for it; END_SIGHT_NONE: nothing yet. */
struct end_sight {
    int proc, process, stat;
};
#define END_SIGHT_NONE ((struct end_sight){.proc = -1, .process = -1, .stat = -1})

/* Opens that while nobody waits for us. False where there is nothing to be seen, or not yet. */
bool init_end_prepare(const struct child *child, pid_t program, struct end_sight *sight);
/* The filter's listener has hung up. True if that was the end of a program without others: then how it ended,
 * and the CPU time that the program has used; a child that has hidden itself and ends a moment later may not
 * be in it. */
bool init_end_known(const struct child *child, pid_t program, struct end_sight *sight, int32_t *ret_wstatus,
                    uint64_t *ret_cpu_ns);

/* Of a standby jail. Whether its launcher has not been given a program yet: what it is denied is not the
 * job's.
 */
bool init_is_standing_by(const struct child *child);
/* True if the call was the launcher's word that it waits: then it is not to be answered.
 */
bool init_standby_takes(struct child *child, pid_t program, const struct seccomp_notif *request);
/* The parent has sent something: a program, or that it is to be interrupted. */
void init_standby_hear(struct child *child, pid_t program);

/* Libraries (OpenSSL first of all) tell a fork by its PID alone, and a process of a job whose PID were its
 * template's would draw the random numbers that all others of them draw. So a template passes over PID 2,
 * which is its jobs' program's, and each job passes over the template's. */
#define TEMPLATE_PID 3
#define PROGRAM_PID  (TEMPLATE_PID - 1)

/* Takes the next PID of the namespace out of use, for good: those below 300 are given once. Returns 0 or
 * -errno. */
int child_pass_over_pid(struct child *child);
/* Closes every descriptor but 0, 1, 2 and those the child was given. */
int child_close_others(struct child *child);
/* Reports a failed step (JAIL_NO_STEP: what comes before the first) to the parent, if it is still there. */
void child_report_failure(const struct child *child, uint32_t step, int error);

/* Opens the parent directory of `path` in the new root, beneath it and through no link, and points
 * `*ret_name` at the last component. Returns a descriptor, which stays the child's, or -errno. */
int child_open_parent(struct child *child, const char *path, const char **ret_name);
void child_forget_parent(struct child *child);
/* Opens `name` in such a directory (O_PATH), through no link. */
int child_open_below(struct child *child, int parent, const char *name);
/* Opens `path` in the new root (O_PATH), beneath it and through no link. */
int child_open_path(struct child *child, const char *path);

/* Before there is a program: what of the plan says how its locks are counted. */
void init_locks_begin(struct child *child);
/* Whether the filter handed the call to us to be counted, not to be denied. */
bool init_locks_counts(const struct child *child, const struct seccomp_data *call);
/* True if it may be made; it is taken for made, then. */
bool init_locks_allow(struct child *child);

/* Gives PID 1 a procfs of its own, where the kernel does: `child->proc`. */
void step_mount_own_proc(struct child *child);

/* One function per step; steps.def says what each does. */
#define X(name, word, where, doc) int step_##name(struct child *child, const struct jail_step *step);
#include "jail/plan/steps.def"
#undef X
