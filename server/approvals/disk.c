/* Approvals on disk. Runs in the warden, which alone writes there. The header says what lies where, and why
 * it can be trusted after a crash. */
#include "server/approvals/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "server/kit/die_here.h"

#define FIELD        "approval_directory"
#define LOCK_FILE    ".lock"
#define HALF_WRITTEN ".new"
#define TRIED_OUT    ".try"
#define JOB_SUFFIX   ".job"
#define GRANT_PREFIX "grant-"
#define NAME_BYTES   96

#define APPROVAL_FILE_BYTES_MAX 16384

struct approval_disk {
    int fd, lock_fd;
};

/* ---- The directory ---- */

static int refuse(struct err *reterr, int code, const char *path, const char *why)
{
    return err_set(reterr, ERR_CONFIG, code, FIELD, "%.200s: %s", path, why);
}

static int check_owner(const struct approval_disk *disk, const char *path, struct err *reterr)
{
    struct stat st;
    if (fstat(disk->fd, &st) < 0) {
        return refuse(reterr, errno, path, strerror(errno));
    }
    if (st.st_uid != geteuid()) {
        return refuse(reterr, EPERM, path, "it is not the server's own");
    }
    return st.st_mode & (S_IRWXG | S_IRWXO)
               ? refuse(reterr, EPERM, path, "others may look into it; chmod 700")
               : 0;
}

/* Of the process: what is forked does not hold it, nor keep it when we die. */
static int lock(struct approval_disk *disk, const char *path, struct err *reterr)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    disk->lock_fd = openat(disk->fd, LOCK_FILE, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (disk->lock_fd < 0) {
        return refuse(reterr, errno, path, strerror(errno));
    }
    if (fcntl(disk->lock_fd, F_SETLK, &whole) < 0) {
        bool taken = errno == EACCES || errno == EAGAIN;
        return refuse(reterr, taken ? EBUSY : errno, path,
                      taken ? "another server uses it" : strerror(errno));
    }
    return 0;
}

/* `what` is how the tests call the place between two steps. `ret_renamed` (may be NULL) is written on failure
 * too: whether the file is the new one nevertheless, until the machine dies. */
static int put(const struct approval_disk *disk, const char *name, const struct buf *data, const char *what,
               bool *ret_renamed)
{
    char place[64];
    bool renamed = false;
    CLEANUP(fd_closep)
    int fd = openat(disk->fd, HALF_WRITTEN, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return -errno;
    }
    int r = data->len > 0 ? io_write_full(fd, data->data, data->len) : 0;
    if (r == 0 && fsync(fd) < 0) {
        r = -errno;
    }
    snprintf(place, sizeof place, "%s written", what);
    die_here(place);
    if (r == 0) {
        renamed = renameat(disk->fd, HALF_WRITTEN, disk->fd, name) == 0;
        r = renamed ? 0 : -errno;
    }
    if (ret_renamed) {
        *ret_renamed = renamed;
    }
    snprintf(place, sizeof place, "%s renamed", what);
    die_here(place);
    if (r == 0 && fsync(disk->fd) < 0) {
        r = -errno;
    }
    if (r < 0) {
        unlinkat(disk->fd, HALF_WRITTEN, 0);
    }
    return r;
}

int approval_disk_open(const char *path, struct approval_disk **ret, struct err *reterr)
{
    struct approval_disk *disk = calloc(1, sizeof *disk);
    if (!disk) {
        return err_errno(reterr, ENOMEM, "opening the directory of approvals");
    }
    disk->lock_fd = -1;
    disk->fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (disk->fd < 0 && errno == ENOENT && mkdir(path, 0700) == 0) {
        disk->fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    char why[IO_PATH_ERROR_BYTES];
    int r = disk->fd < 0 ? refuse(reterr, errno, path, io_path_error(path, errno, why)) : 0;
    r = r < 0 ? r : check_owner(disk, path, reterr);
    r = r < 0 ? r : lock(disk, path, reterr);
    if (r == 0) {
        unlinkat(disk->fd, HALF_WRITTEN, 0);
        /* A directory that cannot be written is found now, and not by the first job. */
        r = put(disk, TRIED_OUT, &(struct buf){0}, "nothing", NULL);
        unlinkat(disk->fd, TRIED_OUT, 0);
        r = r < 0 ? refuse(reterr, -r, path, strerror(-r)) : 0;
    }
    if (r < 0) {
        approval_disk_close(disk);
        return r;
    }
    *ret = disk;
    return 0;
}

void approval_disk_close(struct approval_disk *disk)
{
    if (disk) {
        fd_closep(&disk->lock_fd);
        fd_closep(&disk->fd);
        free(disk);
    }
}

/* ---- One file ---- */

static int write_approval(const struct approval_disk *disk, const struct approval *approval,
                          bool *ret_renamed, struct err *reterr)
{
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    int r = approval_encode(approval, &packed);
    r = r < 0 ? r : put(disk, approval->id, &packed, approval_state_to_string(approval->state), ret_renamed);
    return r < 0 ? err_errno(reterr, -r, "writing an approval") : 0;
}

int approval_disk_write(struct approval_disk *disk, const struct approval *approval, struct err *reterr)
{
    return write_approval(disk, approval, NULL, reterr);
}

int approval_disk_rewrite(struct approval_disk *disk, const struct approval *from, const struct approval *to,
                          struct err *reterr)
{
    bool renamed = false;
    int r = write_approval(disk, to, &renamed, reterr);
    if (r < 0 && renamed) {
        write_approval(disk, from, NULL, NULL);
    }
    return r;
}

static void job_name(const char *id, char ret[NAME_BYTES])
{
    snprintf(ret, NAME_BYTES, "%s" JOB_SUFFIX, id);
}

int approval_disk_write_job(struct approval_disk *disk, const char *id, const struct buf *packed,
                            struct err *reterr)
{
    char name[NAME_BYTES];
    job_name(id, name);
    int r = put(disk, name, packed, "job", NULL);
    return r < 0 ? err_errno(reterr, -r, "writing a job that waits for approval") : 0;
}

/* Nothing that somebody else may have put in its place makes us wait, or read without end. */
static int read_file(const struct approval_disk *disk, const char *name, size_t most, struct buf *ret)
{
    struct stat st;
    CLEANUP(fd_closep) int fd = openat(disk->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        return -errno;
    }
    return S_ISREG(st.st_mode) ? io_read_fd(fd, most, ret) : -EINVAL;
}

int approval_disk_read_job(const struct approval_disk *disk, const char *id, struct buf *ret,
                           struct err *reterr)
{
    char name[NAME_BYTES];
    job_name(id, name);
    int r = read_file(disk, name, MSG_SUBMISSION_MAX, ret);
    return r < 0 ? err_errno(reterr, -r, "reading a job that waits for approval") : 0;
}

void approval_disk_remove_job(struct approval_disk *disk, const char *id)
{
    char name[NAME_BYTES];
    job_name(id, name);
    unlinkat(disk->fd, name, 0);
}

void approval_disk_remove(struct approval_disk *disk, const char *id)
{
    approval_disk_remove_job(disk, id);
    unlinkat(disk->fd, id, 0);
}

int approval_disk_write_grant(struct approval_disk *disk, const char hash[SHA256_HEX], const char *text,
                              struct err *reterr)
{
    char name[NAME_BYTES];
    CLEANUP(buf_free) struct buf data = BUF_INIT;
    snprintf(name, sizeof name, GRANT_PREFIX "%s", hash);
    int r = buf_puts(&data, text);
    r = r < 0 ? r : put(disk, name, &data, "grant", NULL);
    return r < 0 ? err_errno(reterr, -r, "noting a first approval in approval_directory") : 0;
}

/* ---- All of them ---- */

static int visit_approval(struct approval_disk *disk, const char *name,
                          const struct approval_visitor *visitor, struct err *reterr)
{
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    struct approval approval;
    struct err err = {0};
    int r = read_file(disk, name, APPROVAL_FILE_BYTES_MAX, &packed);
    if (r == -ENOMEM || r == -EMFILE || r == -ENFILE) {
        return err_errno(reterr, -r, "reading an approval"); /* which there is nothing wrong with */
    }
    if (r < 0) {
        err_errno(&err, -r, "reading it");
    } else if (approval_decode(packed.data ? packed.data : "", packed.len, &approval, &err) == 0 &&
               strcmp(approval.id, name) != 0) {
        err_set(&err, ERR_INVALID, EINVAL, NULL, "it is about another approval");
    }
    if (!err_is_set(&err)) {
        return visitor->found(visitor->arg, &approval, reterr);
    }
    err_wrap(&err, "%s", name);
    visitor->broken(visitor->arg, &err);
    return 0;
}

/* A job whose approval was not written any more. */
static void visit_job(struct approval_disk *disk, const char *name)
{
    char id[APPROVAL_ID_BYTES];
    snprintf(id, sizeof id, "%.*s", APPROVAL_ID_BYTES - 1, name);
    if (approval_id_is_valid(id) && strcmp(name + APPROVAL_ID_BYTES - 1, JOB_SUFFIX) == 0 &&
        faccessat(disk->fd, id, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT) {
        unlinkat(disk->fd, name, 0);
    }
}

static int visit(struct approval_disk *disk, const char *name, const struct approval_visitor *visitor,
                 struct err *reterr)
{
    unsigned char hash[SHA256_BYTES];
    const size_t prefix = sizeof GRANT_PREFIX - 1;
    if (approval_id_is_valid(name)) {
        return visit_approval(disk, name, visitor, reterr);
    }
    if (strncmp(name, GRANT_PREFIX, prefix) == 0 && sha256_from_hex(name + prefix, hash) == 0) {
        return visitor->granted(visitor->arg, name + prefix, reterr);
    }
    if (strlen(name) > APPROVAL_ID_BYTES - 1) {
        visit_job(disk, name);
    }
    return 0;
}

int approval_disk_visit(struct approval_disk *disk, const struct approval_visitor *visitor,
                        struct err *reterr)
{
    int fd = openat(disk->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(dir_closep) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        int code = errno;
        fd_closep(&fd);
        return err_errno(reterr, code, "reading the directory of approvals");
    }
    int r = 0;
    const struct dirent *entry = NULL;
    while (r == 0 && (errno = 0, entry = readdir(dir))) {
        r = visit(disk, entry->d_name, visitor, reterr);
    }
    return r == 0 && !entry && errno != 0 ? err_errno(reterr, errno, "reading the directory of approvals")
                                          : r;
}
