/* struct approval_disk: the directory that approval_directory names.
 *
 *     ID          where the approval stands, packed (config/message/approval.proto)
 *     ID.job      the job, packed, as long as it may still run
 *     grant-HASH  a team, or a key, that has had its first approval for a policy; for a person to read
 *     .lock       held by the server that uses the directory
 *
 * Each file is written whole under another name, made durable, and renamed; then the directory is made
 * durable. So whatever is there was there whole, and what a function has returned outlives the machine. */
#pragma once

#include <stddef.h>

#include "config/message/approval.h"

struct approval_disk;
struct buf;
struct err;

/* Locks the directory, and removes what was only half written. ERR_CONFIG where it is not ours alone. */
int approval_disk_open(const char *path, struct approval_disk **ret, struct err *reterr);
/* Takes NULL. */
void approval_disk_close(struct approval_disk *disk);

int approval_disk_write(struct approval_disk *disk, const struct approval *approval, struct err *reterr);
/* Where it cannot be made durable, `from` is put back: what the disk says of a step must be what its caller
 * was told of it. Only a machine that dies on top of that may leave either. */
int approval_disk_rewrite(struct approval_disk *disk, const struct approval *from, const struct approval *to,
                          struct err *reterr);
int approval_disk_write_job(struct approval_disk *disk, const char *id, const struct buf *packed,
                            struct err *reterr);
/* Appends. */
int approval_disk_read_job(const struct approval_disk *disk, const char *id, struct buf *ret,
                           struct err *reterr);
/* Whether or not it is there; one that cannot be removed is in nobody's way. */
void approval_disk_remove_job(struct approval_disk *disk, const char *id);
void approval_disk_remove(struct approval_disk *disk, const char *id);

int approval_disk_write_grant(struct approval_disk *disk, const char hash[SHA256_HEX], const char *text,
                              struct err *reterr);

struct approval_visitor {
    int (*found)(void *arg, const struct approval *approval, struct err *reterr);
    int (*granted)(void *arg, const char hash[SHA256_HEX], struct err *reterr);
    /* A file of ours that cannot be read; it stays where it is, and what it was about does not run. */
    void (*broken)(void *arg, const struct err *err);
    void *arg;
};
int approval_disk_visit(struct approval_disk *disk, const struct approval_visitor *visitor,
                        struct err *reterr);
