/* struct store: workspaces of sessions in a directory of the host, where they outlive the server.
 *
 *     DIRECTORY/            mode 0700
 *         .lock             held by the one server that uses it
 *         .ended/           what the housekeeper empties
 *         NAME/             one session; 128 random bits
 *             session       whose it is (config/message/session.proto); modified when the session was last
 * used work/         the workspace; all that jails see
 *
 * Everything is reached by descriptor from the directory, which is opened once. */
#pragma once

#include <stdint.h>

#include "config/message/stored_session.h"

struct err;
struct idmap_pool;
struct store;

#define STORE_NAME_BYTES 33

/* What is found there at the start. */
struct store_entry {
    char name[STORE_NAME_BYTES];
    struct stored_session session;
    uint64_t used_ms;
};

/* Tries out all that jails will need of the file system; ERR_HOST or ERR_CONFIG with a sentence where
 * something is missing. Call in the mount namespace in which jails are made. */
int store_open(const char *path, const struct idmap_pool *ids, struct store **ret, struct err *reterr);
void store_free(struct store *store);

/* Whom files belong to on disk. */
void store_owner(const struct store *store, uint32_t *ret_uid, uint32_t *ret_gid);
/* Bytes that its file system has left for us; 0 where it does not say. */
uint64_t store_free_bytes(const struct store *store);
/* The directory of what has ended. */
int store_ended_fd(const struct store *store);

/* Calls `found` for each session, in no order. What is broken is ended, and handed to `broken` with the
 * reason; what has a name that is none of ours is left alone. */
struct store_visitor {
    int (*found)(void *arg, const struct store_entry *entry, struct err *reterr);
    void (*broken)(void *arg, const struct err *err);
    void *arg;
};
int store_visit(struct store *store, const struct store_visitor *visitor, struct err *reterr);

/* A new one. `session` NULL: there is room for its files, but it is none until it is committed. */
int store_make(struct store *store, const struct stored_session *session, char ret_name[STORE_NAME_BYTES],
               struct err *reterr);
/* What of that is to be whose session. */
struct store_staged {
    const char *name;
    struct stored_session session;
};
/* All of them are sessions from now on, or none is, also where the server is killed meanwhile. */
int store_commit(struct store *store, const struct store_staged *staged, size_t n, struct err *reterr);
/* The workspace that was staged takes the place of that session's, and what lay there goes. */
int store_swap(struct store *store, const char *staged, const char *name, struct err *reterr);
/* Its directory, for scratch_put() and its like; and as a detached mount in which its files belong to uid and
 * gid, for keeper_add(). */
int store_enter(const struct store *store, const char *name, int *ret_fd, struct err *reterr);
int store_mount(const struct store *store, int fd, uint32_t uid, uint32_t gid, int *ret_fd,
                struct err *reterr);
/* The workspace alone, for the housekeeper. */
int store_workspace(const struct store *store, const char *name, int *ret_fd, struct err *reterr);
/* It was used now. */
void store_touch(int fd);
/* Its end: at once and for good, though its files are still to be removed. 0 or -errno. */
int store_end(struct store *store, const char *name);
