/* What the two processes inside a jail share while it is being built.
 *
 * Everything declared here runs between clone and exec, in a copy of the parent's memory without its heap:
 * raw system calls only, no malloc, no stdio, no locks, no logging. Errors are negative errno values; the
 * parent writes the sentences. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "jail/child/message.h"
#include "jail/plan/plan.h"

struct denied_table;

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
    bool ended_program;    /* we have, for a call that its filter kills for */
    bool interrupted;      /* a kernel's program has been, and its launcher may not know yet */
    int program_fd;        /* the file that a kernel's last program came in; -1: none yet */
    /* Set by the program's process, which shares memory with PID 1 until exec. */
    uint32_t failed_step;
    int failed_error; /* positive errno; 0: exec happened */
};

int child_send(const struct child *child, const struct child_message *message, int fd);
int child_receive(const struct child *child, enum jail_phase phase);

/* Answers a system call that the filter handed to us: with `error`, a positive errno; 0: it may go on. */
void child_answer(const struct child *child, uint64_t id, int error);

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
/* The word on a failed step (JAIL_NO_STEP: what comes before the first). */
void child_describe_failure(const struct child *child, uint32_t step, int error, struct child_message *ret);
/* Sends it to the parent, if that is still there. */
void child_report_failure(const struct child *child, uint32_t step, int error);

/* Opens the parent directory of `path` in the new root, beneath it and through no link, and points
 * `*ret_name` at the last component. Returns a descriptor, which stays the child's, or -errno. */
int child_open_parent(struct child *child, const char *path, const char **ret_name);
void child_forget_parent(struct child *child);
/* Opens `name` in such a directory (O_PATH), through no link. */
int child_open_below(struct child *child, int parent, const char *name);
/* Opens `path` in the new root (O_PATH), beneath it and through no link. */
int child_open_path(struct child *child, const char *path);
