/* What the parts of the table of sessions share.
 *
 *     sessions.c            the table: each one's life, and its workspace
 *     lookup.c              what is found there: ownership, lists
 *     room.c                how many there may be, how much they may hold, and which of them go for others
 *     files.c               their files, without a job; files_process.c does that work
 *     branch.c              copies of them; copy.c and compare.c do that work
 *     disk.c                workspaces in a directory of the host: read back, looked at, removed */
#pragma once

#include <string.h>

#include "config/message/message.h"
#include "config/server/config.h"
#include "jail/resources/tree.h"
#include "server/kit/deadline.h"
#include "server/sessions/files_process.h"
#include "server/sessions/sessions.h"
#include "server/sessions/store.h"

struct keeper;
struct session_disk;
struct session_files;

/* Whose sessions are counted together: by the hash of the key, zeros where the server is open. */
struct session_owner {
    unsigned char hash[KEY_HASH_BYTES]; /* first: by which it is found */
    uint32_t count;
    uint64_t bytes;
    uint32_t files_waiting;       /* questions about files */
    uint64_t files_waiting_bytes; /* of those that are to be put */
    bool files_busy;              /* one of them is being done */
};

struct session {
    struct deadline deadline;        /* joined while it is idle */
    struct sessions *all;            /* also while dying */
    struct session *previous, *next; /* in all->first; newest last; not while dying */
    bool dying;
    bool fresh;  /* no job has run in it, and nobody has put a file there */
    bool lost;   /* its workspace is, with the keeper: it counts no more */
    bool held;   /* it is being copied: no job begins in it */
    bool staged; /* it is becoming a copy, and not yet a session */
    char id[SESSION_ID_BYTES];
    struct session_owner *owner;
    uint64_t number; /* the keeper's name for it; 0: it has none */
    uint32_t uid, gid;
    bool has_id;
    int fd;              /* -1: on disk, and without a jail */
    uint64_t size_bytes; /* in memory: what it can hold as it is mounted now */
    uint64_t inodes;
    unsigned jobs;
    unsigned kept;                /* how many things go on in its workspace between jobs */
    unsigned references;          /* the table, and every job whose jail is there, and a look at it */
    uint64_t created_ms, used_ms; /* since the epoch */
    uint64_t idle_ns;             /* since when, while it is idle */
    uint64_t counted_bytes;       /* what of its owner's bytes is its own */

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
    struct session_files *files;
    struct session *first, *last;
    void *by_id, *owners; /* search.h; those whose keys are gone stay */
    size_t count;         /* without those that are lost */
    uint64_t bytes;       /* that they hold, as far as they have been counted */
    size_t attached;      /* that have an outer id and a mount */
    uint64_t last_number;
    struct tree_limits limits; /* of one workspace */
    uint64_t free_bytes;       /* what the disk must have left */
    uint64_t memory_bytes; /* that all may hold unless the configuration says; 0: there is no such bound */
    uint64_t most;         /* that this process has ids and descriptors for */
    struct deadlines deadlines;
    struct deadline_queue idle;
};

static inline bool session_is_on_disk(const struct session *session)
{
    return session->name[0] != '\0';
}

/* Of owners, in their tree. */
static inline int sessions_by_hash(const void *a, const void *b)
{
    return memcmp(a, b, KEY_HASH_BYTES);
}

/* What there is to be room for: so many new ones, and so many bytes in them or beside what there is. */
struct session_want {
    const struct session *session; /* one that is not to go for it; NULL: none */
    uint32_t count;
    uint64_t bytes;
};

/* sessions.c */

void sessions_take_settings(struct sessions *sessions, const struct server_config *config);
/* Ends idle ones that may go, until there is. Otherwise as of sessions_check_room(). */
int sessions_make_room(struct sessions *sessions, const struct server_config *config,
                       const struct session_owner *owner, const struct session_want *want,
                       uint64_t *ret_retry_after_ms, struct err *reterr);
/* One of that name, of which there is none; `staged`: it is held, and its files are to come. */
int session_new(struct sessions *sessions, struct session_owner *owner, const char *session_id, bool staged,
                struct session **ret, struct err *reterr);

/* Something goes on in it, until session_leave() and session_unref(). */
void session_begin(struct session *session);

/* lookup.c */

/* It is found by its name from now on, and not any more. 0 or -ENOMEM. */
int sessions_index(struct session *session);
void sessions_unindex(const struct session *session);
/* NULL: there is none. */
struct session *sessions_named(const struct sessions *sessions, const char *session_id);
/* The session that is asked for; NULL: it is to be made. ERR_DENIED, ERR_CONFLICT as of session_enter(). */
int sessions_find_asked(const struct sessions *sessions, const struct session_ask *ask, struct session **ret,
                        struct err *reterr);
/* Whose the session of that key is, or may be; made where there is none. */
int sessions_owner(struct sessions *sessions, const struct server_config *config, const char *key,
                   struct session_owner **ret, struct err *reterr);
int sessions_owner_of(struct sessions *sessions, const unsigned char hash[KEY_HASH_BYTES],
                      struct session_owner **ret, struct err *reterr);

/* room.c */

/* What of memory and descriptors there may be sessions for. */
void sessions_measure_host(struct sessions *sessions);
/* What it holds, of which `bytes` is its files'; `there` false: it is none any more. */
void session_count(struct session *session, uint64_t bytes, bool there);
/* The same, as its workspace says now, where it lies in memory. */
void session_recount(struct session *session);
/* Whether there is room for that of the owner's; nothing is changed. ERR_RATE where no idle one of the
 * owner's that may go would make enough of it. */
int sessions_check_room(const struct sessions *sessions, const struct server_config *config,
                        const struct session_owner *owner, const struct session_want *want,
                        uint64_t *ret_retry_after_ms, struct err *reterr);
/* After that question: the next one that has to go for it. NULL: none. */
struct session *sessions_in_the_way(const struct sessions *sessions, const struct server_config *config,
                                    const struct session_owner *owner, const struct session_want *want);

/* files.c */

/* One thing that the process is to do. */
struct file_step {
    struct files_request request;
    int workspace, content; /* as of files_process_begin() */
};

/* What takes several steps, between which the key's next thing waits. */
struct file_work {
    /* Its turn has come: the first step. */
    int (*begin)(struct file_work *work, const struct session_file_ask *ask, struct session_owner *owner,
                 struct msg_session_answer *answer, struct file_step *ret, struct err *reterr);
    /* A step is done, or has failed. 1: there is another one; 0: that was all. */
    int (*next)(struct file_work *work, const struct files_answer *done, struct msg_session_answer *answer,
                struct file_step *ret, struct err *reterr);
    /* Also where it has not begun. */
    void (*free)(struct file_work *work);
};
/* Takes the work, on failure too. */
int session_files_ask_work(struct sessions *sessions, const struct session_file_ask *ask,
                           struct file_work *work, struct err *reterr);
/* What a session's files need that has been entered: `session->fd`. */
int session_files_open(struct session *session, struct err *reterr);
/* After that, or after session_begin() alone. */
void session_files_leave(struct session *session, bool done);

int session_files_new(struct sessions *sessions, struct session_files **ret, struct err *reterr);
/* What is being done is broken off. Takes NULL. */
void session_files_free(struct session_files *files);

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
/* Those that were staged are sessions now, all or none; those that have ended meanwhile are left alone. */
int session_disk_commit(struct session_disk *disk, struct session *const *staged, size_t n,
                        struct err *reterr);
/* A workspace for session_disk_exchange(), which takes the place of the session's. */
int session_disk_stage(struct session_disk *disk, char ret_name[STORE_NAME_BYTES], int *ret_fd,
                       struct err *reterr);
int session_disk_exchange(struct session *session, const char *staged, struct err *reterr);
/* What lies there of that, whoever's it was, goes. */
void session_disk_unstage(struct session_disk *disk, const char *staged);
/* Whether the disk has room for so many bytes. ERR_BUSY. */
int session_disk_check_free(const struct session_disk *disk, uint64_t bytes, struct err *reterr);
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
