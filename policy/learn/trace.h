/* One system call of a watched program, while it waits to be made. Nothing outside of this room calls it. */
#pragma once

struct err;
struct observed;
struct policy;
struct seccomp_notif;
struct tracer;

int tracer_new(struct observed *observed, struct tracer **ret, struct err *reterr);
void tracer_free(struct tracer *tracer); /* takes NULL */
/* Writes the call down. Returns 0 where it is to go on, or the errno with which policies answer it so that
 * programs do without. */
int tracer_look(struct tracer *tracer, const struct seccomp_notif *call);
