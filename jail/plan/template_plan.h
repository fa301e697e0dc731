/* One plan in two, for jobs on the template's path: what a template does once, and what is left for each job.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct err;
struct jail_plan;

/* Where the script's directory of a job lies on its scratch, and where a run plan puts it. */
#define TEMPLATE_SCRIPT_DIRECTORY "/immure"

/* The script that a preloaded shared object puts before the interpreter which it is in, on that descriptor.
 */
#define TEMPLATE_START_FD 9
#define TEMPLATE_START    "/proc/self/fd/9"

/* The template's own plan: everything of `plan` that is the same for every job, so its root with all its
 * mounts but the scratch's, whose places are left as empty directories; and exec of the template program
 * (`size_bytes` of the input descriptor, copied to TEMPLATE_SCRIPT_DIRECTORY/template) with `argv` behind its
 * name and `plan`'s environment. `temporary_bytes`: what it may itself write
 * where its jobs have their scratch, and they do not see; 0: nothing. `preloaded`: that is no program, but a
 * shared object, and what is exec'd is the interpreter of `plan`, with `argv` and with it in LD_PRELOAD.
 * `uid` is its id inside. -EOPNOTSUPP with ERR_HOST where the plan does not fit a template: no procfs, or a
 * writable host directory. */
int jail_plan_for_template(const struct jail_plan *plan, uint64_t size_bytes, uint64_t temporary_bytes,
                           char *const *argv, bool preloaded, uint32_t uid, bool keep_setid,
                           struct jail_plan **ret, struct err *reterr);
/* The job's plan: the rest. It inherits the template's root and ends in RUN. */
int jail_plan_for_run(const struct jail_plan *plan, struct jail_plan **ret, struct err *reterr);

/* What a standby jail (jail/standby.h) is built by whose interpreter preloads the shared object. `plan` is
 * what its job is held against, with an image for its root; the shared object (`size_bytes` of the input
 * descriptor) lies beside immure's own files, and the interpreter starts with `argv`. The script is to be put
 * into the scratch, as for jail_plan_for_run(). All else is the job's, so are filter and limits. -EOPNOTSUPP
 * with ERR_HOST where the plan does not fit. */
int jail_plan_for_standby(const struct jail_plan *plan, uint64_t size_bytes, char *const *argv,
                          struct jail_plan **ret, struct err *reterr);
