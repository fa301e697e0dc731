/* Sessions on disk. Runs in the warden.
 *
 * What programs write is below `work`, which nothing here looks into; jails are given nothing above it. A
 * session is there as soon as its `session` file is, and ends with one rename: a server that is killed in
 * between leaves something to remove, and never half a session. Several that are made at once have their
 * `session` files under another name first; then a list of them is there, or is not, and whoever finds it
 * gives the files their name. */
#include "server/sessions/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/plan/plan.h"
#include "jail/resources/hostdir.h"
#include "jail/resources/idmap.h"
#include "jail/resources/scratch.h"
#include "server/host/outer_ids.h"

#define FIELD "session_directory"

#define LOCK_FILE    ".lock"
#define ENDED        ".ended"
#define SESSION_FILE "session"
#define STAGED_FILE  ".session"
#define COMMITTED    ".committed"
#define COMMITTING   ".committing"

#define SESSION_FILE_BYTES_MAX 4096
#define COMMITTED_BYTES_MAX    4096 /* a name and a line end each */

struct store {
    int fd, ended_fd, lock_fd;
    uint32_t uid, gid; /* on disk */
    bool maps_ids;
};

/* ---- The directory ---- */

static int refuse(struct err *reterr, enum err_kind kind, int code, const char *path, const char *why)
{
    return err_set(reterr, kind, code, FIELD, "%.200s: %s", path, why);
}

/* Who has privileges has to say whose programs' files are to be. */
static int cannot_open(struct err *reterr, int code, const char *path, bool maps_ids)
{
    char why[IO_PATH_ERROR_BYTES];
    if (code == ENOENT && maps_ids) {
        return refuse(
            reterr, ERR_CONFIG, code, path,
            "No such file or directory; make it with `install -d -m 700 -o USER -g GROUP`, a user and a "
            "group that nothing else uses");
    }
    return refuse(reterr, ERR_CONFIG, code, path, io_path_error(path, code, why));
}

static int check_owner(struct store *store, const char *path, const struct idmap_pool *ids,
                       struct err *reterr)
{
    struct stat st;
    uint32_t base, count;
    if (fstat(store->fd, &st) < 0) {
        return refuse(reterr, ERR_CONFIG, errno, path, strerror(errno));
    }
    store->uid = st.st_uid;
    store->gid = st.st_gid;
    store->maps_ids = idmap_pool_mode(ids) == IDMAP_RANGE;
    idmap_pool_range(ids, &base, &count);
    if (st.st_mode & (S_IRWXG | S_IRWXO)) {
        return refuse(reterr, ERR_CONFIG, EPERM, path, "others may look into it; chmod 700");
    }
    if (!store->maps_ids) {
        return st.st_uid == geteuid() ? 0
                                      : refuse(reterr, ERR_CONFIG, EPERM, path, "it is not the server's own");
    }
    if (st.st_uid == 0 || st.st_gid == 0 || st.st_uid - base < count || st.st_gid - base < count ||
        outer_ids_may_be_a_jails(st.st_uid) || outer_ids_may_be_a_jails(st.st_gid)) {
        return refuse(reterr, ERR_CONFIG, EPERM, path,
                      "programs' files would belong to root, or to other jobs: chown it to a user and a "
                      "group that nothing else uses");
    }
    return 0;
}

/* Of the process: what is forked does not hold it, nor keep it when we die. */
static int lock(struct store *store, const char *path, struct err *reterr)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    store->lock_fd = openat(store->fd, LOCK_FILE, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (store->lock_fd < 0) {
        return refuse(reterr, ERR_CONFIG, errno, path, strerror(errno));
    }
    if (fcntl(store->lock_fd, F_SETLK, &whole) < 0) {
        return errno == EACCES || errno == EAGAIN
                   ? refuse(reterr, ERR_CONFIG, EBUSY, path, "another server uses it")
                   : refuse(reterr, ERR_HOST, errno, path, strerror(errno));
    }
    return 0;
}

static int make_directory(const struct store *store, int parent, const char *name, mode_t mode, int *ret_fd)
{
    if (mkdirat(parent, name, 0700) < 0 && errno != EEXIST) {
        return -errno;
    }
    CLEANUP(fd_closep) int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    /* The mode last: a change of owner may take bits away. */
    if (fd < 0 || fchown(fd, store->uid, store->gid) < 0 || fchmod(fd, mode) < 0) {
        return -errno;
    }
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* A session that nobody has, made, mounted and ended. */
static int try_out(struct store *store, const char *path, const struct idmap_pool *ids, struct err *reterr)
{
    const struct stored_session nobody = {.id = "-"};
    struct err err = {0};
    char name[STORE_NAME_BYTES];
    CLEANUP(fd_closep) int fd = -1;
    CLEANUP(fd_closep) int mount = -1;
    uint32_t uid, count;
    idmap_pool_range(ids, &uid, &count);
    int r = store_make(store, &nobody, name, &err);
    if (r == 0) {
        r = store_enter(store, name, &fd, &err);
        r = r < 0 ? r : store_mount(store, fd, uid, uid, &mount, &err);
        int ended = store_end(store, name);
        r = r < 0 || ended == 0 ? r : err_errno(&err, -ended, "ending a session");
    }
    return r < 0 ? refuse(reterr, ERR_HOST, -r, path, err.text) : 0;
}

int store_open(const char *path, const struct idmap_pool *ids, struct store **ret, struct err *reterr)
{
    struct store *store = calloc(1, sizeof *store);
    if (!store) {
        return err_errno(reterr, ENOMEM, "opening the directory of sessions");
    }
    *store = (struct store){.ended_fd = -1, .lock_fd = -1};
    if (idmap_pool_mode(ids) == IDMAP_SELF) {
        mkdir(path, 0700); /* where it is missing; what comes of it is told by the next line */
    }
    store->fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r = store->fd < 0 ? cannot_open(reterr, errno, path, idmap_pool_mode(ids) == IDMAP_RANGE) : 0;
    r = r < 0 ? r : check_owner(store, path, ids, reterr);
    r = r < 0 ? r : lock(store, path, reterr);
    if (r == 0 && (r = make_directory(store, store->fd, ENDED, 0700, &store->ended_fd)) < 0) {
        r = refuse(reterr, ERR_CONFIG, -r, path, strerror(-r));
    }
    r = r < 0 ? r : try_out(store, path, ids, reterr);
    if (r < 0) {
        store_free(store);
        return r;
    }
    *ret = store;
    return 0;
}

void store_free(struct store *store)
{
    if (store) {
        fd_closep(&store->ended_fd);
        fd_closep(&store->lock_fd);
        fd_closep(&store->fd);
        free(store);
    }
}

void store_owner(const struct store *store, uint32_t *ret_uid, uint32_t *ret_gid)
{
    *ret_uid = store->uid;
    *ret_gid = store->gid;
}

uint64_t store_free_bytes(const struct store *store)
{
    struct statvfs fs;
    return fstatvfs(store->fd, &fs) < 0 ? 0 : (uint64_t)fs.f_bavail * (uint64_t)fs.f_frsize;
}

int store_ended_fd(const struct store *store)
{
    return store->ended_fd;
}

/* ---- One session ---- */

static int make_name(char ret[STORE_NAME_BYTES])
{
    unsigned char bits[(STORE_NAME_BYTES - 1) / 2];
    if (getrandom(bits, sizeof bits, 0) != (ssize_t)sizeof bits) {
        return -EIO;
    }
    for (size_t i = 0; i < sizeof bits; i++) {
        snprintf(ret + 2 * i, 3, "%02x", bits[i]);
    }
    return 0;
}

static bool is_name(const char *name)
{
    return strlen(name) == STORE_NAME_BYTES - 1 && strspn(name, "0123456789abcdef") == STORE_NAME_BYTES - 1;
}

static int write_session(const struct store *store, int fd, const char *name,
                         const struct stored_session *session)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    if (stored_session_write(session, &text) < 0) {
        return -ENOMEM;
    }
    CLEANUP(fd_closep)
    int file = openat(fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0 || fchown(file, store->uid, store->gid) < 0) {
        return -errno;
    }
    return io_write_full(file, text.data, text.len);
}

int store_make(struct store *store, const struct stored_session *session, char ret_name[STORE_NAME_BYTES],
               struct err *reterr)
{
    char name[STORE_NAME_BYTES];
    CLEANUP(fd_closep) int fd = -1;
    CLEANUP(fd_closep) int work = -1;
    int r = make_name(name);
    if (r < 0) {
        return err_errno(reterr, -r, "naming the directory of a session");
    }
    r = make_directory(store, store->fd, name, 0700, &fd);
    r = r < 0 ? r : make_directory(store, fd, SCRATCH_WORK, 0755, &work);
    r = r < 0 || !session ? r : write_session(store, fd, SESSION_FILE, session);
    if (r < 0) {
        store_end(store, name); /* it may be there, although it could not be opened */
        return err_errno(reterr, -r, "making the directory of a session");
    }
    memcpy(ret_name, name, sizeof name);
    return 0;
}

static int publish(const struct store *store, const char *name)
{
    char from[STORE_NAME_BYTES + sizeof STAGED_FILE], to[STORE_NAME_BYTES + sizeof SESSION_FILE];
    snprintf(from, sizeof from, "%s/%s", name, STAGED_FILE);
    snprintf(to, sizeof to, "%s/%s", name, SESSION_FILE);
    return renameat(store->fd, from, store->fd, to) < 0 ? -errno : 0;
}

/* What a server before us had decided. */
static int finish_commit(const struct store *store)
{
    CLEANUP(buf_free) struct buf names = BUF_INIT;
    int r = io_read_file_at(store->fd, COMMITTED, COMMITTED_BYTES_MAX, &names);
    if (r < 0) {
        return r == -ENOENT ? 0 : r;
    }
    char *rest = names.data;
    for (char *name; rest && (name = strsep(&rest, "\n"));) {
        r = is_name(name) ? publish(store, name) : 0;
        if (r < 0 && r != -ENOENT) { /* it has been done, or ended since */
            return r;
        }
    }
    return unlinkat(store->fd, COMMITTED, 0) < 0 ? -errno : 0;
}

static int stamp(const struct store *store, const struct store_staged *staged)
{
    CLEANUP(fd_closep)
    int fd = openat(store->fd, staged->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : write_session(store, fd, STAGED_FILE, &staged->session);
}

static int write_list(const struct store *store, const struct store_staged *staged, size_t n)
{
    CLEANUP(buf_free) struct buf names = BUF_INIT;
    for (size_t i = 0; i < n; i++) {
        buf_puts(&names, staged[i].name);
        buf_putc(&names, '\n');
    }
    if (names.failed) {
        return -ENOMEM;
    }
    CLEANUP(fd_closep)
    int fd = openat(store->fd, COMMITTING, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : io_write_full(fd, names.data, names.len);
    r = r < 0 || renameat(store->fd, COMMITTING, store->fd, COMMITTED) == 0 ? r : -errno;
    return r;
}

int store_commit(struct store *store, const struct store_staged *staged, size_t n, struct err *reterr)
{
    int r = finish_commit(store);
    for (size_t i = 0; i < n && r == 0; i++) {
        r = stamp(store, &staged[i]);
    }
    r = r < 0 ? r : write_list(store, staged, n);
    if (r < 0) {
        return err_errno(reterr, -r, "making sessions");
    }
    finish_commit(store); /* or whoever comes next does */
    return 0;
}

int store_swap(struct store *store, const char *staged, const char *name, struct err *reterr)
{
    char from[STORE_NAME_BYTES + sizeof SCRATCH_WORK], to[STORE_NAME_BYTES + sizeof SCRATCH_WORK];
    snprintf(from, sizeof from, "%s/%s", staged, SCRATCH_WORK);
    snprintf(to, sizeof to, "%s/%s", name, SCRATCH_WORK);
    if (renameat2(store->fd, from, store->fd, to, RENAME_EXCHANGE) < 0) {
        return err_errno(reterr, errno, "replacing the workspace of a session");
    }
    return 0;
}

int store_enter(const struct store *store, const char *name, int *ret_fd, struct err *reterr)
{
    int fd = openat(store->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return err_errno(reterr, errno, "opening the directory of a session");
    }
    *ret_fd = fd;
    return 0;
}

int store_workspace(const struct store *store, const char *name, int *ret_fd, struct err *reterr)
{
    CLEANUP(fd_closep) int fd = -1;
    int r = store_enter(store, name, &fd, reterr);
    int work = r < 0 ? -1 : openat(fd, SCRATCH_WORK, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (r == 0 && work < 0) {
        return err_errno(reterr, errno, "opening the workspace of a session");
    }
    *ret_fd = work;
    return r;
}

int store_mount(const struct store *store, int fd, uint32_t uid, uint32_t gid, int *ret_fd,
                struct err *reterr)
{
    const struct hostdir_ids ids = {.disk_uid = store->uid, .disk_gid = store->gid, .uid = uid, .gid = gid};
    return hostdir_mount(fd, store->maps_ids ? &ids : NULL, false, ret_fd, reterr);
}

void store_touch(int fd)
{
    utimensat(fd, SESSION_FILE, NULL, AT_SYMLINK_NOFOLLOW);
}

int store_end(struct store *store, const char *name)
{
    return renameat(store->fd, name, store->ended_fd, name) < 0 ? -errno : 0;
}

/* ---- All of them ---- */

static int read_entry(const struct store *store, const char *name, struct store_entry *ret,
                      struct err *reterr)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    CLEANUP(fd_closep) int fd = -1;
    struct stat st;
    int r = store_enter(store, name, &fd, reterr);
    if (r < 0) {
        return r;
    }
    CLEANUP(fd_closep) int file = openat(fd, SESSION_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0 || fstat(file, &st) < 0) {
        return err_errno(reterr, errno, "reading whose session it is");
    }
    r = S_ISREG(st.st_mode) ? io_read_fd(file, SESSION_FILE_BYTES_MAX, &text) : -EINVAL;
    if (r < 0) {
        return err_errno(reterr, -r, "reading whose session it is");
    }
    memcpy(ret->name, name, STORE_NAME_BYTES);
    ret->used_ms = (uint64_t)st.st_mtim.tv_sec * 1000 + (uint64_t)st.st_mtim.tv_nsec / NS_PER_MS;
    return stored_session_read(SESSION_FILE, text.data ? text.data : "", text.len, &ret->session, reterr);
}

static int visit(struct store *store, const char *name, const struct store_visitor *visitor,
                 struct err *reterr)
{
    struct store_entry entry;
    struct err err = {0};
    if (!is_name(name)) {
        return 0;
    }
    if (read_entry(store, name, &entry, &err) == 0) {
        return visitor->found(visitor->arg, &entry, reterr);
    }
    err_wrap(&err, "%s", name);
    visitor->broken(visitor->arg, &err);
    int r = store_end(store, name);
    return r < 0 ? err_errno(reterr, -r, "ending the broken session %s", name) : 0;
}

int store_visit(struct store *store, const struct store_visitor *visitor, struct err *reterr)
{
    int r = finish_commit(store);
    if (r < 0) {
        return err_errno(reterr, -r, "reading the directory of sessions");
    }
    int fd = openat(store->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(dir_closep) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        int code = errno;
        fd_closep(&fd);
        return err_errno(reterr, code, "reading the directory of sessions");
    }
    const struct dirent *entry = NULL;
    while (r == 0 && (errno = 0, entry = readdir(dir))) {
        r = visit(store, entry->d_name, visitor, reterr);
    }
    if (r == 0 && !entry && errno != 0) {
        return err_errno(reterr, errno, "reading the directory of sessions");
    }
    return r;
}
