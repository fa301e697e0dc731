/* What PID 1 of a jail does once it is built: init.c, and its parts init_end.c, init_standby.c and
 * init_locks.c. Raw system calls only. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct child;
struct child_message;
struct seccomp_data;
struct seccomp_notif;

/* PID 1's life: makes the program's process, which applies the steps behind `index`; reports its start or
 * failure; answers denied system calls; reaps; reports the end. Never returns. */
void init_main(struct child *child, uint32_t index) __attribute__((noreturn));

/* The two halves of that, for a program whose process comes to be in another way. Before it does: a
 * descriptor that tells of children's ends, or -errno; SIGCHLD is blocked from here on. */
int init_watch_children(struct child *child);
/* Afterwards: serves until it ends, and reports that with what `end` holds. `signals` is that descriptor,
 * `listener_source` (-1: none) a socket over which the seccomp listener may come. Never returns. */
void init_serve(struct child *child, pid_t program, int signals, int listener_source,
                struct child_message *end) __attribute__((noreturn));

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
 * job's. */
bool init_is_standing_by(const struct child *child);
/* True if the call was the launcher's word that it waits: then it is not to be answered. */
bool init_standby_takes(struct child *child, pid_t program, const struct seccomp_notif *request);
/* The parent has sent something: a program, or that it is to be interrupted. */
void init_standby_hear(struct child *child, pid_t program);

/* Before there is a program: what of the plan says how its locks are counted. */
void init_locks_begin(struct child *child);
/* Whether the filter handed the call to us to be counted, not to be denied. */
bool init_locks_counts(const struct child *child, const struct seccomp_data *call);
/* True if it may be made; it is taken for made, then. */
bool init_locks_allow(struct child *child);
