/* Sessions: workspaces that outlive jobs, each of one key. Runs in the warden.
 *
 * A session has one outer id for as long as it lasts: its jobs, which may run at once, are one trust domain,
 * and no job outside of it ever has that id. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/message/message_session.h"

struct err;
struct host;
struct log;
struct loop;
struct server_config;
struct session;
struct sessions;

struct sessions_options {
    struct host *host;
    struct loop *loop;
    struct log *const *log;     /* replaced at a reload */
    void (*changed)(void *arg); /* after the number of sessions has changed */
    /* The jobs of this session must end: `why` is the rest of a sentence about its workspace. */
    void (*over)(void *arg, const struct session *session, const char *why);
    /* The session is over: nothing of it is to live on. `at_once` false: but for what runs now. */
    void (*ended)(void *arg, const struct session *session, bool at_once);
    /* Answers a question about files; `fd`, -1 where nothing comes along, is closed afterwards. */
    void (*answered)(void *arg, void *asker, const struct msg_session_answer *answer, int fd);
    void *arg;
};

/* The workspace that the jobs of one session share, and whom its files belong to. */
struct session_workspace {
    int fd;                      /* as of scratch_open(); outlives the job */
    int mount_fd;                /* a copy for this job's jail; may be closed afterwards */
    uint32_t uid, gid;           /* outside of the jail */
    uint32_t file_uid, file_gid; /* whose files are as seen through `fd` */
    uint64_t inodes;             /* what the workspace can hold */
    uint64_t entries;            /* what it holds, as of the last look */
};

/* Where the configuration names a directory, the sessions that are found there are in the table. */
int sessions_new(const struct sessions_options *options, const struct server_config *config,
                 struct sessions **ret, struct err *reterr);
/* Its jobs must have ended. What lies on disk stays there. Takes NULL. */
void sessions_free(struct sessions *sessions);

/* Most that a file may have that a session's job writes; 0: what its policy says. */
uint64_t session_file_bytes(const struct server_config *config);

size_t sessions_count(const struct sessions *sessions);
/* What they hold, as of their last jobs' ends, and in `*ret_most` what they may hold together; 0: there is no
 * such bound. */
uint64_t sessions_bytes(const struct sessions *sessions, const struct server_config *config,
                        uint64_t *ret_most);

/* Which session a job wants: `config` has the limits and `key` (a name in it), whom it belongs to. */
struct session_ask {
    const struct server_config *config;
    const char *key, *session_id;
    bool kept; /* none that is to be made */
};

/* Begins a job in that session, which is made (`*ret_new`) where there is none. ERR_DENIED: it is another
 * key's. ERR_CONFLICT: there is none to keep. ERR_RATE: what the key may have is in use;
 * `*ret_retry_after_ms` says when one of its sessions may go. */
int session_enter(struct sessions *sessions, const struct session_ask *ask, struct session **ret,
                  bool *ret_new, uint64_t *ret_retry_after_ms, struct err *reterr);
/* How that would end now; nothing is begun. `*ret` NULL: it would be made. */
int session_try(const struct sessions *sessions, const struct session_ask *ask, struct session **ret,
                struct err *reterr);
/* The job has ended; `ran` false: it never began, and a session that was made for it goes. So does one
 * without files in which nothing goes on. Takes NULL. */
void session_leave(struct session *session, bool ran);
/* After that: nothing of its jail is left, and the session's id and workspace are no longer in use. Takes
 * NULL. */
void session_unref(struct session *session);
struct session *session_ref(struct session *session);
/* Whether something goes on in its workspace between its jobs, too. */
void session_keep(struct session *session, bool kept);
const char *session_id_of(const struct session *session);
/* What a job of the session needs that brings input files of so many bytes; `ret->mount_fd` is the caller's
 * to close. */
int session_open(struct session *session, uint64_t input_bytes, struct session_workspace *ret,
                 struct err *reterr);

/* The session of that name, or NULL with no error: there is none. ERR_DENIED: it is another key's. */
int session_find(const struct sessions *sessions, const struct server_config *config, const char *key,
                 const char *session_id, struct session **ret, struct err *reterr);
/* Forgets it: the name is free at once. What its jobs still hold goes with the last of their jails. */
void session_end(struct session *session);

/* A question about the files of a key's session without a job. */
struct session_file_ask {
    const struct server_config *config; /* until it is answered or forgotten */
    struct msg_session_query query;     /* one about files; the path is as of scratch_check_path() */
    uint64_t most_bytes;                /* of a file that is fetched */
    void *asker;                        /* not NULL; handed to `answered` */
};

/* The answer comes by the hook `answered`, perhaps before this returns; a process of its own does the work,
 * no link is followed, and of one key one thing is done at a time, in this order. `content`, of a file that
 * is put, stays the caller's. It goes in the place of what stood there, or, on failure, everything is as it
 * was; the session is made where there is none. Answers: ERR_NOT_FOUND: the key has no such session, or that
 * no such file; ERR_TOO_LARGE; ERR_CONFLICT: a directory stands there; and those of session_enter(). On
 * failure nobody is answered; ERR_RATE: too many of the key's wait for another file to be put. */
int session_files_ask(struct sessions *sessions, const struct session_file_ask *ask, int content,
                      struct err *reterr);
/* The same about copies of the session that the question names, and what differs between two. A fork and a
 * restore happen wholly or not at all, and between them and the session's jobs there is no half:
 * ERR_CONFLICT: jobs run in it, or a session that is to be made is there; jobs that come meanwhile are
 * ERR_BUSY. What fills the copies comes from `what` and the others of the query. */
int session_branch_ask(struct sessions *sessions, const struct session_file_ask *ask, struct err *reterr);
/* Whoever asked is gone: what waits is dropped, and of what is being done nobody is told. Takes
 * NULL. */
void session_files_forget(struct sessions *sessions, const void *asker);

/* One row per session of the key, in the order of their making; at most `max`. Returns how many. */
size_t sessions_list(const struct sessions *sessions, const struct server_config *config, const char *key,
                     struct session_row *ret, size_t max);
