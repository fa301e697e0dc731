/* Warm starts: a template per runtime that has one, and jails parked by it, each used once.
 *
 * Runs in the warden. A struct warm belongs to one reading of the configuration; jobs under way hold on to
 * the template that they came from, so that a reload or a stop of the pool never ends them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct host;
struct jail;
struct jail_plan;
struct log;
struct loop;
struct policy;
struct policy_image;
struct runtime_config;
struct session_workspace;
struct settings;
struct warm;
struct warm_jail;

struct warm_options {
    struct host *host;
    struct loop *loop;
    struct log *log;
    const struct settings *settings; /* outlives the struct warm */
    const unsigned *n_jobs;          /* how many jobs run now: jails are parked while few do */
    unsigned
        *n_templates; /* how many templates there are, those of earlier settings included; outlives all */
    void (*publish)(void *arg); /* called when warm_counts() may have changed: at once for jails that
                                   start an interpreter, now and then for the others */
    void *publish_arg;
};

/* Starts the templates. One that does not start or does not fit costs a line in the log and speed, nothing
 * else. */
int warm_new(const struct warm_options *options, struct warm **ret, struct err *reterr);
/* Ends the parked jails; templates live until the last job that came from them. Takes NULL. */
void warm_free(struct warm *warm);

/* A job has ended, and its jail is gone: time to look whether jails should be parked. Takes NULL. */
void warm_tend(struct warm *warm);
/* A job has started: parking would be in its way, unless the next job would find nothing; and what costs an
 * interpreter's start is put off for as long as short jobs run. */
void warm_tend_empty(struct warm *warm);

/* The image whose files are the root of a job's jail. */
struct warm_image {
    int lock_fd; /* of its directory (server/image): while it is open, the files stay */
    uint64_t imported_ms;
    const struct policy_image *policy;
};

/* A jail for a job: a parked one, or one that its template is now asked for; NULL where there is no template
 * for this runtime under this policy that works, or none whose interpreter was started as the job's `plan`
 * wants it. A job of a `session` (NULL: none) gets a jail that is made for it, with the session's workspace
 * and ids. `owner` is settings_template_owner()'s: the first job of one gets NULL, and its template is
 * started. So does the first job in an `image` (NULL: none): what it says of itself is a stranger's, so its
 * interpreter is started in the jail of one job each, and there is none for sessions. */
struct warm_jail *warm_take(struct warm *warm, const struct runtime_config *runtime,
                            const struct policy *policy, const struct jail_plan *plan,
                            const struct session_workspace *session, const char *owner,
                            const struct warm_image *image);
/* Kills what is left of it. Takes NULL. */
void warm_jail_free(struct warm_jail *jail);
struct jail *warm_jail_jail(struct warm_jail *jail);
/* The plan of a standby jail, which takes its program by jail_standby_run(); NULL: a template's, by
 * jail_run(). */
const struct jail_plan *warm_jail_standby_plan(const struct warm_jail *jail);
/* True for one whose program is nevertheless a file, put where a template's jobs have theirs. */
bool warm_jail_has_script(const struct warm_jail *jail);
int warm_jail_scratch(const struct warm_jail *jail);
void warm_jail_ids(const struct warm_jail *jail, uint32_t *ret_uid, uint32_t *ret_gid);
/* The size limit its scratch was made with, room for a small script aside. */
uint64_t warm_jail_scratch_bytes(const struct warm_jail *jail);

struct warm_count {
    const char *runtime;
    unsigned parked, building, in_images; /* `in_images`: ready in one; not among the others */
    uint64_t pss_bytes;                   /* of one parked jail, measured last; 0: not yet */
    uint64_t replaced; /* how often another template has taken the place of one that worked */
};
/* One row per runtime with a template; returns how many. */
size_t warm_counts(const struct warm *warm, struct warm_count *ret, size_t max);
