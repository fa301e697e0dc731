/* The scratch tmpfs of a job: size- and inode-limited, made by the parent, filled and read through a
 * descriptor only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct err;

/* A detached tmpfs with those directories, owned by uid:gid (as the caller sees them). `*ret_fd` is both what
 * a SCRATCH step attaches and what every function below works through; it stays valid after the jail's end.
 */
int scratch_open(uint64_t size_bytes, uint64_t inodes, uint32_t uid, uint32_t gid, int *ret_fd,
                 struct err *reterr);

/* Writes `size` bytes of `from` at `offset` to the working directory's `path` (relative, may hold '/',
 * already validated), making directories as needed. ERR_TOO_LARGE where the scratch is full. */
int scratch_put(int scratch_fd, const char *path, int from, uint64_t offset, uint64_t size, uint32_t uid,
                uint32_t gid, struct err *reterr);

/* Makes room for a file in a workspace that has been used before: removes what stands there, unless it is a
 * directory. 0 or -errno; what cannot be removed is for scratch_put() to complain about. */
int scratch_remove(int scratch_fd, const char *path);

/* Whoever puts files into a workspace that others put files into holds this lock meanwhile. Returns a
 * descriptor, with whose end it is given back, or -errno; `wait` false: -EWOULDBLOCK where somebody has it.
 * No program does: it sees only what is below. */
int scratch_lock(int scratch_fd, bool wait);

/* Puts all of the file behind `from` in the place of what stood at `path`: at once, or, on failure, not at
 * all. ERR_CONFLICT: a directory stands there, or the name leads through something else than directories. */
int scratch_replace(int scratch_fd, const char *path, int from, uint32_t uid, uint32_t gid,
                    struct err *reterr);
/* Sets another size limit while nothing is on it that would not fit. */
int scratch_resize(int scratch_fd, uint64_t size_bytes, struct err *reterr);

/* Writes the script of a job from a template, `name` in the code directory. */
int scratch_put_script(int scratch_fd, const char *name, int from, uint64_t size, uint32_t uid, uint32_t gid,
                       struct err *reterr);

/* 0 if `path` is a fit relative file name: no empty part, '.', '..', leading '/', at most 255 bytes a part
 * and PATH_MAX-256 in all, not empty. ERR_INVALID with a sentence otherwise. */
int scratch_check_path(const char *path, struct err *reterr);

/* Gives the working directory the mode that it was made with, whatever a job before has given it: the next
 * one has to get in. 0 or -errno. */
int scratch_reset_mode(int scratch_fd);

/* Bytes and inodes used now. */
int scratch_usage(int scratch_fd, uint64_t *ret_bytes, uint64_t *ret_inodes);

/* A regular file below the working directory. */
struct scratch_file {
    char *path; /* relative, any bytes but NUL */
    uint64_t size_bytes;
    struct timespec mtime, ctime;
    uint64_t inode;
};

struct scratch_list {
    struct scratch_file *files; /* sorted by path */
    size_t n_files;
    bool truncated; /* more than the limit, or deeper than SCRATCH_DEPTH_MAX */
};
#define SCRATCH_DEPTH_MAX 32

/* Lists regular files, never following a link, at most `max_files`. Looks at `max_entries` names at most: the
 * inode limit bounds a scratch that lies still, but a job of the same session may be making names all the
 * while. Of a workspace that has been removed since it is empty. */
int scratch_list(int scratch_fd, size_t max_files, size_t max_entries, struct scratch_list *ret,
                 struct err *reterr);
void scratch_list_free(struct scratch_list *list);

/* True for an error that says nothing of the program's files, but that we could not look (descriptors,
 * memory). */
bool scratch_error_is_ours(int r);

/* Opens a regular file below the working directory for reading, beneath it and through no link of any kind.
 * -ENOENT where there is none, -EINVAL/-ELOOP/-EXDEV where it is something else; no error object: such names
 * yield nothing. */
int scratch_open_file(int scratch_fd, const char *path, int *ret_fd, uint64_t *ret_size);
