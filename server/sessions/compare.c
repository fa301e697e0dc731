/* Two workspaces, file by file. Runs in the process for files of sessions: as in copy.c, whatever the names
 * stand for may change meanwhile. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/message/message_session.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/resources/scratch.h"
#include "server/sessions/copy.h"

#define CHUNK_BYTES (64u << 10)

struct comparing {
    int from, to;
    uint64_t deadline_ns;
    struct session_rows *ret;
    char one[CHUNK_BYTES], other[CHUNK_BYTES];
};

/* Where there may be something else than zeros, at `at` or behind it; `size` where there is nothing more. */
static int next_data(int fd, off_t at, off_t size, off_t *ret)
{
    off_t data = lseek(fd, at, SEEK_DATA);
    if (data < 0 && errno != ENXIO) {
        return -errno;
    }
    *ret = data < 0 || data > size ? size : data;
    return 0;
}

static ssize_t read_at(int fd, char *ret, off_t at, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t n = pread(fd, ret + done, size - done, at + (off_t)done);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 ? -errno : (ssize_t)done;
        }
        done += (size_t)n;
    }
    return (ssize_t)done;
}

/* 1: every byte is the same. What is a hole in both is not read. */
static int same_bytes(struct comparing *comparing, int one, int other, off_t size)
{
    for (off_t at = 0; at < size;) {
        off_t a = size, b = size;
        int r = next_data(one, at, size, &a);
        r = r < 0 ? r : next_data(other, at, size, &b);
        if (r < 0) {
            return r;
        }
        at = a < b ? a : b;
        size_t chunk = size - at < (off_t)CHUNK_BYTES ? (size_t)(size - at) : CHUNK_BYTES;
        ssize_t n = read_at(one, comparing->one, at, chunk), m = read_at(other, comparing->other, at, chunk);
        if (n < 0 || m < 0) {
            return n < 0 ? (int)n : (int)m;
        }
        if (n != m || memcmp(comparing->one, comparing->other, (size_t)n) != 0) {
            return 0;
        }
        if (clock_now_ns() > comparing->deadline_ns) {
            return -ETIMEDOUT;
        }
        at += (off_t)chunk;
    }
    return 1;
}

/* 1: the same. What cannot be opened has gone, or is no file any more. */
static int same_file(struct comparing *comparing, const char *path)
{
    CLEANUP(fd_closep) int one = -1;
    CLEANUP(fd_closep) int other = -1;
    uint64_t size, other_size;
    int r = scratch_open_file(comparing->from, path, &one, &size);
    r = r < 0 ? r : scratch_open_file(comparing->to, path, &other, &other_size);
    if (r < 0) {
        return scratch_error_is_ours(r) ? r : 0;
    }
    return size == other_size ? same_bytes(comparing, one, other, (off_t)size) : 0;
}

static void add(struct session_rows *rows, struct scratch_file *file, enum session_change change,
                uint64_t size_before)
{
    char *path = TAKE_PTR(file->path);
    rows->files[rows->n_files++] = (struct session_file){
        .path = path,
        .size = file->size_bytes,
        .modified_ms = (uint64_t)file->mtime.tv_sec * 1000 + (uint64_t)file->mtime.tv_nsec / NS_PER_MS,
        .change = change,
        .size_before = size_before,
    };
}

/* Both lists are sorted by path. */
static int merge(struct comparing *comparing, struct scratch_list *before, struct scratch_list *after)
{
    size_t i = 0, j = 0;
    while (i < before->n_files || j < after->n_files) {
        struct scratch_file *old = i < before->n_files ? &before->files[i] : NULL;
        struct scratch_file *new = j < after->n_files ? &after->files[j] : NULL;
        int order = !old ? 1 : !new ? -1 : strcmp(old->path, new->path);
        i += order <= 0;
        j += order >= 0;
        if (order < 0) {
            add(comparing->ret, old, SESSION_REMOVED, 0);
        } else if (order > 0) {
            add(comparing->ret, new, SESSION_ADDED, 0);
        } else {
            int r = old->size_bytes == new->size_bytes ? same_file(comparing, new->path) : 0;
            if (r < 0) {
                return r;
            }
            if (r == 0) {
                add(comparing->ret, new, SESSION_CHANGED, old->size_bytes);
            }
        }
    }
    return 0;
}

int workspace_compare(int from, int to, uint64_t max_entries, struct session_rows *ret, struct err *reterr)
{
    CLEANUP(scratch_list_free) struct scratch_list before = {0};
    CLEANUP(scratch_list_free) struct scratch_list after = {0};
    int r = scratch_list(from, max_entries, max_entries, &before, reterr);
    r = r < 0 ? r : scratch_list(to, max_entries, max_entries, &after, reterr);
    if (r < 0) {
        return r;
    }
    CLEANUP(freep) struct comparing *comparing = calloc(1, sizeof *comparing);
    *ret = (struct session_rows){.truncated = before.truncated || after.truncated};
    ret->files = calloc(before.n_files + after.n_files + 1, sizeof *ret->files);
    if (!comparing || !ret->files) {
        return err_errno(reterr, ENOMEM, "comparing sessions");
    }
    comparing->from = from;
    comparing->to = to;
    comparing->deadline_ns = clock_now_ns() + COPY_TIMEOUT_NS;
    comparing->ret = ret;
    r = merge(comparing, &before, &after);
    if (r == -ETIMEDOUT) {
        return err_set(reterr, ERR_BUSY, ETIMEDOUT, NULL,
                       "comparing the sessions took longer than %" PRIu64 " s",
                       (uint64_t)(COPY_TIMEOUT_NS / NS_PER_S));
    }
    return r < 0 ? err_errno(reterr, -r, "comparing sessions") : 0;
}
