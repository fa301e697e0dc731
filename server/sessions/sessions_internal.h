/* What the parts of the table of sessions share.
 *
 *     sessions.c            the table: each one's life, and its workspace
 *     lookup.c              what is found there: ownership, counts, lists
 *     disk.c                workspaces in a directory of the host: read back, looked at, removed */
#pragma once

#include "config/message/message.h"
#include "config/server/config.h"
#include "jail/resources/tree.h"
#include "server/kit/deadline.h"
#include "server/sessions/sessions.h"
#include "server/sessions/store.h"

struct keeper;
struct session_disk;

struct session {
    struct deadline deadline; /* first, so that one is the other; joined while it is idle */
    struct sessions *all;     /* also while dying */
    struct session *next;     /* in all->first; newest last; not while dying */
    bool dying;
    bool fresh; /* no job has run in it */
    bool lost;  /* its workspace is, with the keeper: it counts no more */
    char id[SESSION_ID_BYTES];
    unsigned char owner[KEY_HASH_BYTES];
    uint64_t number; /* the keeper's name for it; 0: it has none */
    uint32_t uid, gid;
    bool has_id;
    int fd; /* -1: on disk, and not used since the server started */
    uint64_t inodes;
    unsigned jobs;
    unsigned kept;                /* how many things go on in its workspace between jobs */
    unsigned references;          /* the table, and every job whose jail is there, and a look at it */
    uint64_t created_ms, used_ms; /* since the epoch */

    /* On disk only. */
    char name[STORE_NAME_BYTES]; /* of its directory */
    bool ended;                  /* that is among those to be removed */
    struct tree_usage usage;     /* as of the last look */
    uint64_t look_due_ns;        /* 0: nothing has changed since */
};

struct sessions {
    struct sessions_options options;
    struct keeper *keeper; /* NULL: not started yet, or gone */
    struct loop_source *keeper_source;
    struct session_disk *disk; /* NULL: workspaces lie in memory */
    struct session *first;
    size_t count;
    uint64_t last_number;
    struct tree_limits limits; /* of one workspace */
    uint64_t free_bytes;       /* what the disk must have left */
    struct deadlines deadlines;
    struct deadline_queue idle;
};

static inline bool session_is_on_disk(const struct session *session)
{
    return session->name[0] != '\0';
}

/* lookup.c */

uint64_t sessions_now_ms(void);
/* NULL: there is none. */
struct session *sessions_named(const struct sessions *sessions, const char *session_id);
/* The session that a job enters, as of session_enter(); NULL: there is room for it, and it is to be made. */
int sessions_look_up(const struct sessions *sessions, const struct server_config *config, const char *key,
                     const char *session_id, unsigned char ret_owner[KEY_HASH_BYTES], struct session **ret,
                     uint64_t *ret_retry_after_ms, struct err *reterr);

/* disk.c */

/* What it has to say to the table, which is above it. */
struct session_disk_hooks {
    /* Takes the reference back that a look had. */
    void (*unref)(struct session *session);
    /* One lies there; 1: its time is over, and it is to be ended. */
    int (*found)(struct sessions *sessions, const struct store_entry *entry, struct err *reterr);
};
int session_disk_new(struct sessions *sessions, const char *path, const struct session_disk_hooks *hooks,
                     struct session_disk **ret, struct err *reterr);
/* Takes NULL. Sessions stay where they are. */
void session_disk_free(struct session_disk *disk);
/* Puts those that are found there into the table, and ends those whose time is over. */
int session_disk_load(struct session_disk *disk, struct err *reterr);

const struct store *session_disk_store(const struct session_disk *disk);

/* The workspace of a new session. */
int session_disk_make(struct session *session, struct err *reterr);
/* Opens it: `session->fd`, and a mount for the keeper. The session has its outer id. */
int session_disk_open(struct session *session, int *ret_mount_fd, struct err *reterr);
/* Whether a job may begin that brings so many bytes. ERR_TOO_LARGE: over its limits; ERR_BUSY: the disk is
 * full. */
int session_disk_check(const struct session *session, uint64_t input_bytes, struct err *reterr);
/* A job has begun or ended: there is something to look at. */
void session_disk_changed(struct session *session);
/* Its end: `gone` once nothing uses its files any more, with `end` once more where that has failed. */
void session_disk_end(struct session *session);
void session_disk_gone(struct session_disk *disk);
