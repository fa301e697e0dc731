/* What the two halves of the warm starts share: warm.c keeps the stock, warm_template.c the templates. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "server/run/settings.h"
#include "server/run/warm.h"

struct jail_plan;
struct jail_template;
struct loop_source;

enum template_state {
    TEMPLATE_OFF,      /* not started, or waiting to be started again */
    TEMPLATE_STARTING, /* runs, has not parked a jail yet */
    TEMPLATE_READY,    /* has parked one: it works */
    TEMPLATE_UNFIT,    /* does not work here; the reason is in the log */
};

struct warm_jail {
    struct warm_template *template;
    struct warm_jail *next; /* in template->stock; not once it is taken */
    struct jail *jail;
    struct loop_source *source; /* NULL once it is taken */
    int scratch_fd;
    uint32_t uid, gid;
    bool has_id, ready;
    uint64_t parked_ns;
};

/* Of a runtime with `standby` there is no template process: see warm_standby.c. */
struct warm_template {
    unsigned references; /* the struct warm, and every jail */
    struct warm *warm;   /* NULL: retired, its settings may be gone */
    struct warm_template *next;
    struct warm_template *successor; /* takes its place once it is ready; NULL: none */
    uint64_t successor_due_ns;       /* none is made before then */
    bool is_successor;               /* of one that serves meanwhile; not in the list */
    struct host *host;
    const struct runtime_config *runtime;
    const struct policy *policy;
    char owner[TEMPLATE_OWNER_BYTES]; /* whose jobs it makes jails for; "": everybody's */
    uint64_t asked_ns;                /* by a job, last */
    enum template_state state;
    struct jail_template *template;
    struct loop_source *source;
    uint32_t uid, gid; /* outer */
    bool has_id;
    struct jail_plan *park_plan;
    bool filter_early;              /* the policy lets a parked process run behind its filter */
    bool files_late;                /* and set its RLIMIT_NOFILE there */
    struct jail_plan *session_plan; /* the same for a job of a session; NULL: the policy has no workspace */
    struct warm_jail *stock;        /* oldest first */
    unsigned n_ready, n_building, failures;
    unsigned n_jobs;       /* jobs that have been given a jail of its process */
    uint64_t started_ns;   /* its process */
    unsigned *n_templates; /* it is counted here; NULL: a standby's, which has no process */
    uint64_t pause_ns;     /* not started, nothing parked before then */
    uint64_t pss_bytes, private_bytes;
};

struct warm {
    struct warm_options options;
    struct warm_template *templates;
    uint64_t *n_replaced; /* of each runtime: templates in whose place another has been put */
    unsigned n_cpus;
    int loadavg_fd; /* -1: not to be had */
    struct loop_source *timer;
    uint64_t due_ns; /* when the timer goes off */
    /* A jail of the stock (`arg`) is ready, or has ended before anybody took it. */
    void (*on_parked_jail)(void *arg, uint32_t events);
};

/* warm_template.c */
int warm_template_new(struct warm *warm, const struct runtime_config *runtime, const struct policy *policy,
                      const char *owner, struct warm_template **ret, struct err *reterr);
void warm_template_start(struct warm_template *template);
/* Its process has ended, or it cannot make jails: all its stock goes, and it is started again later or never.
 */
void warm_template_fail(struct warm_template *template, const struct err *err);
/* One jail could not be parked, or ended in the stock. A template that has worked goes on, after a pause. */
void warm_template_stumble(struct warm_template *template, const struct err *err);
void warm_template_unref(struct warm_template *template);
/* It makes no more; what it has made lives on, and it ends with the last of that. */
void warm_template_retire(struct warm_template *template);
/* Asks for one more jail and puts it at the end of the stock. `session`: see warm_take(). */
int warm_template_park(struct warm_template *template, const struct session_workspace *session,
                       struct warm_jail **ret, struct err *reterr);
/* Takes a jail out of the stock; it is the caller's. */
void warm_template_unstock(struct warm_jail *jail);
/* All stocks are looked after then, if they would not be before. */
void warm_tend_by(struct warm *warm, uint64_t due_ns);

/* warm_standby.c */
/* True for a runtime whose jails start an interpreter each, ahead of their jobs. */
bool warm_is_standby(const struct warm_template *template);
int warm_standby_start(struct warm_template *template, struct err *reterr);
/* The jail has its ids. */
int warm_standby_park(const struct warm_template *template, struct warm_jail *jail, struct err *reterr);
