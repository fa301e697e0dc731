/* What the parts of the warm starts share: warm.c keeps the stock, warm_template.c the templates,
 * warm_standby.c and warm_image.c what jails of one job each are made of. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "server/run/settings.h"
#include "server/run/warm.h"

struct jail_plan;
struct jail_spawn_options;
struct jail_template;
struct loop_source;

/* A script up to this size needs no other size limit of the scratch than the one it was parked with. */
#define SCRIPT_ROOM_BYTES 4096

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
    int said_fd; /* of an image's interpreter, what it has complained of; -1: of no image */
    uint32_t uid, gid;
    bool has_id, ready;
    uint64_t parked_ns;
};

/* The image of a template (warm_image.c). */
struct template_image {
    char name[65];
    int fd; /* holds its files; -1: it has been given up, and holds none */
    dev_t device;
    ino_t inode;
    uint64_t imported_ms;
    struct jail_plan *built; /* what its jails are built by; NULL: the park plan */
};

/* Of a runtime with `standby`, and in an image, there is no template process: see warm_standby.c. */
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
    struct template_image *image;     /* NULL: none */
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
/* `image`: NULL, or the one whose interpreter it starts. */
int warm_template_new(struct warm *warm, const struct runtime_config *runtime, const struct policy *policy,
                      const char *owner, const struct warm_image *image, struct warm_template **ret,
                      struct err *reterr);
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

/* warm_program.c */
/* A shared object for the interpreter to preload, rather than a program that keeps one. */
bool warm_is_preloaded(const struct runtime_config *runtime);
/* What an interpreter with it is started with; the array alone is the caller's. NULL: no memory. */
char **warm_template_arguments(const struct warm_template *template);
int warm_open_program(const struct warm_template *template, int *ret_fd, uint64_t *ret_bytes,
                      struct err *reterr);

/* warm_standby.c */
/* True for a template whose jails start an interpreter each, ahead of their jobs. */
bool warm_is_standby(const struct warm_template *template);
int warm_standby_start(struct warm_template *template, struct err *reterr);
/* The jail has its ids. */
int warm_standby_park(const struct warm_template *template, struct warm_jail *jail, struct err *reterr);

/* warm_image.c */
/* Makes a template one of an image, with its plans. */
int warm_image_attach(struct warm_template *template, const struct warm_image *image, struct err *reterr);
/* Takes NULL. */
void warm_image_free(struct template_image *image);
/* `image` NULL: whether it is of none. */
bool warm_image_is(const struct warm_template *template, const struct warm_image *image);
/* Whether its name leads to something else now, or nowhere. */
bool warm_image_is_gone(const struct warm_template *template);
/* Adds to what is spawned for a template of an image what is special about that; `*ret_mount_fd` and
 * `*ret_program_fd` (-1: none) are to be closed afterwards. */
int warm_image_prepare(const struct warm_template *template, struct warm_jail *jail,
                       struct jail_spawn_options *options, int *ret_mount_fd, int *ret_program_fd,
                       struct err *reterr);
/* Why a jail of one has ended, as far as it has said so: in one line of printable characters. */
void warm_image_said(const struct warm_jail *jail, char *ret, size_t size);
/* Looks after what stands ready in images, `*ret_any`. Where all of it holds more than it may, the one that
 * holds most; else NULL. */
struct warm_jail *warm_image_watch(const struct warm *warm, bool *ret_any);
/* Whether there is memory left for one more jail of it. If not, and it has none, `*ret_makes_way` is one of
 * the image whose last job was longest ago; else NULL. */
bool warm_image_has_room(const struct warm_template *template, struct warm_jail **ret_makes_way);
