/* The audit log's file. Runs in the warden, its only writer: a front sends lines and has no descriptor of the
 * file, so that one that was taken over can add false lines and leave out true ones, but change none.
 *
 * What must hold: each line is the next link of the chain that the file, or the one that was rotated before,
 * ends with; whatever cannot be written is said in the chain later; nothing that is in a file is ever written
 * over. */
#include "server/audit/trail.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "server/audit/chain.h"
#include "server/kit/json_out.h"
#include "server/kit/log.h"

/* A rotated file's name ends in the number of its last line, so that names sort as the lines do. */
#define ROTATED_DIGITS 12

struct audit_trail {
    struct audit_trail_options options;
    char *path;
    const char *name; /* in the directory; of `path` */
    int directory, fd;
    bool regular;       /* else nothing is found in it, and it is not rotated: /dev/null, a pipe */
    bool begun;         /* lines have been written, and the lock is ours */
    bool unsure;        /* a write went wrong: the end is to be looked for again */
    uint64_t bytes;     /* in the file */
    uint64_t rotate_at; /* 0: never */
    struct audit_link last;
    size_t torn_bytes; /* of a line that a crash cut off, whose hash is `last`'s; 0: none */
    bool torn_here;    /* at the end of this very file */
    uint64_t lost;     /* lines that could not be written since the last one that could */
    uint64_t lost_in_all;
    struct buf line; /* kept between lines */
};

/* ---- The end of a chain ---- */

struct chain_end {
    bool found;             /* a whole line */
    struct audit_link last; /* it, but for the hash where a torn one follows: that one's */
    size_t torn_bytes;
};

static int not_a_chain(const char *path, struct err *reterr)
{
    return err_set(reterr, ERR_CONFIG, EINVAL, "audit_log",
                   "%.150s ends in no line of an audit chain; move it away, and a new chain begins", path);
}

static int cannot(const char *verb, const char *path, int code, struct err *reterr)
{
    char why[IO_PATH_ERROR_BYTES];
    return err_set(reterr, ERR_CONFIG, code, "audit_log", "cannot %s %.200s: %s", verb, path,
                   io_path_error(path, code, why));
}

static const char *last_line_feed(const char *data, size_t size)
{
    return size > 0 ? memrchr(data, '\n', size) : NULL;
}

/* `tail` is the end of a file; `whole`: and its beginning. */
static int read_end(const char *tail, size_t size, bool whole, struct chain_end *ret)
{
    const char *feed = last_line_feed(tail, size);
    const char *torn = feed ? feed + 1 : tail;
    size_t torn_bytes = size - (size_t)(torn - tail);
    *ret = (struct chain_end){.torn_bytes = torn_bytes};
    if (feed) {
        const char *before = last_line_feed(tail, (size_t)(feed - tail));
        const char *line = before ? before + 1 : tail;
        const char *kind;
        size_t kind_size;
        if ((!before && !whole) ||
            !audit_chain_parse(line, (size_t)(feed - line), &ret->last, &kind, &kind_size)) {
            return -EINVAL;
        }
        ret->found = true;
        ret->last.seq++;
        sha256_hex_of(line, (size_t)(feed - line), ret->last.sha256);
    } else if (!whole) {
        return -EINVAL;
    }
    if (torn_bytes > 0) {
        sha256_hex_of(torn, torn_bytes, ret->last.sha256);
    }
    return 0;
}

/* -EINVAL: there is something else. */
static int find_end(int fd, uint64_t *ret_bytes, struct chain_end *ret)
{
    struct stat stat;
    if (fstat(fd, &stat) < 0) {
        return -errno;
    }
    /* Long enough for the last line and for what a crash left of another. */
    size_t size = 2 * (AUDIT_LINE_MAX + 1);
    uint64_t bytes = (uint64_t)stat.st_size;
    size = bytes < size ? (size_t)bytes : size;
    CLEANUP(buf_free) struct buf tail = BUF_INIT;
    char *to = buf_reserve(&tail, size + 1);
    if (!to) {
        return -ENOMEM;
    }
    ssize_t n = size > 0 ? pread(fd, to, size, (off_t)(bytes - size)) : 0;
    if (n != (ssize_t)size) {
        return n < 0 ? -errno : -EIO;
    }
    *ret_bytes = bytes;
    return read_end(to, size, bytes == size, ret);
}

/* NAME.000000000042 -> 42; 0: another file. */
static uint64_t rotated_number(const struct audit_trail *trail, const char *name)
{
    size_t length = strlen(trail->name);
    if (strncmp(name, trail->name, length) != 0 || name[length] != '.' ||
        strspn(name + length + 1, "0123456789") != strlen(name + length + 1)) {
        return 0;
    }
    return strtoull(name + length + 1, NULL, 10);
}

/* The file that was rotated last: its number, or 0. */
static uint64_t newest_rotated(const struct audit_trail *trail)
{
    uint64_t newest = 0;
    int fd = openat(trail->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
    if (!directory) {
        fd_closep(&fd);
        return 0;
    }
    const struct dirent *entry;
    while ((entry = readdir(directory))) {
        uint64_t number = rotated_number(trail, entry->d_name);
        newest = number > newest ? number : newest;
    }
    closedir(directory);
    return newest;
}

static void rotated_name(const struct audit_trail *trail, uint64_t number, char *ret, size_t size)
{
    snprintf(ret, size, "%s.%0*" PRIu64, trail->name, ROTATED_DIGITS, number);
}

/* The chain goes on where the file before ended. */
static int find_end_before(const struct audit_trail *trail, struct chain_end *ret)
{
    char name[NAME_MAX + 1];
    uint64_t newest = newest_rotated(trail), bytes;
    *ret = (struct chain_end){.last = audit_chain_start()};
    if (newest == 0) {
        return 0;
    }
    rotated_name(trail, newest, name, sizeof name);
    CLEANUP(fd_closep) int fd = openat(trail->directory, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW);
    return fd < 0 ? -errno : find_end(fd, &bytes, ret);
}

static int recover(struct audit_trail *trail, struct err *reterr)
{
    struct chain_end end = {.last = audit_chain_start()}, before;
    trail->last = end.last;
    trail->torn_bytes = 0;
    if (!trail->regular) {
        return 0;
    }
    int r = find_end(trail->fd, &trail->bytes, &end);
    trail->torn_here = end.torn_bytes > 0;
    if (r == 0 && !end.found) {
        r = find_end_before(trail, &before);
        if (r == 0 && end.torn_bytes > 0) {
            end.last.seq = before.last.seq;
        } else if (r == 0) {
            end = before;
        }
    }
    if (r == -EINVAL) {
        return not_a_chain(trail->path, reterr);
    }
    if (r < 0) {
        return cannot("read", trail->path, -r, reterr);
    }
    trail->last = end.last;
    trail->torn_bytes = end.torn_bytes;
    trail->unsure = false;
    return 0;
}

/* ---- Writing ---- */

/* A write that stopped half way is taken back; where it cannot be, the end is looked for before the next. */
static int write_whole(struct audit_trail *trail, const char *data, size_t size)
{
    ssize_t n;
    do {
        n = write(trail->fd, data, size);
    } while (n < 0 && errno == EINTR);
    if (n == (ssize_t)size) {
        trail->bytes += size;
        return 0;
    }
    int code = n < 0 ? errno : ENOSPC;
    if (n > 0 && trail->regular) {
        trail->unsure = ftruncate(trail->fd, (off_t)trail->bytes) < 0;
    }
    return -code;
}

/* `rest` is a line from behind its hash on. */
static int write_link(struct audit_trail *trail, const char *rest, size_t size)
{
    struct buf *line = &trail->line;
    line->len = 0;
    line->failed = false;
    if (trail->torn_bytes > 0 && trail->torn_here) {
        buf_putc(line, '\n');
    }
    size_t start = line->len;
    audit_chain_begin_line(&trail->last, line);
    buf_append(line, rest, size);
    buf_putc(line, '\n');
    if (line->failed) {
        return -ENOMEM;
    }
    int r = write_whole(trail, line->data, line->len);
    if (r == 0) {
        trail->torn_bytes = 0;
        trail->last.seq++;
        sha256_hex_of(line->data + start, line->len - start - 1, trail->last.sha256);
    }
    return r;
}

/* Begins a line of the trail's own; its members follow. */
static void begin_note(struct buf *note, const char *kind)
{
    *note = BUF_INIT;
    json_out_text(note, "chain", kind);
    json_out_time(note, "time", clock_wall_ms());
}

static int end_note(struct audit_trail *trail, struct buf *note)
{
    buf_putc(note, '}');
    int r = note->failed ? -ENOMEM : write_link(trail, note->data, note->len);
    buf_free(note);
    return r;
}

static int note_torn(struct audit_trail *trail)
{
    struct buf note;
    begin_note(&note, "torn");
    json_out_u64(&note, "bytes", trail->torn_bytes);
    LOG(*trail->options.log, LOG_WARNING, "audit_torn", LOG_FIELD_STR("audit_log", trail->path),
        LOG_FIELD_U64("bytes", trail->torn_bytes),
        LOG_FIELD_STR("means", "the last line was cut off: a crash, or somebody's hand"));
    return end_note(trail, &note);
}

static int note_lost(struct audit_trail *trail)
{
    struct buf note;
    begin_note(&note, "lost");
    json_out_u64(&note, "lines", trail->lost);
    int r = end_note(trail, &note);
    if (r == 0) {
        LOG(*trail->options.log, LOG_ERROR, "audit_written_again", LOG_FIELD_STR("audit_log", trail->path),
            LOG_FIELD_U64("lost", trail->lost));
        trail->lost = 0;
    }
    return r;
}

/* What is to be said before the next line. */
static int catch_up(struct audit_trail *trail)
{
    struct err err = {0};
    int r = trail->unsure ? recover(trail, &err) : 0;
    r = r == 0 && trail->torn_bytes > 0 ? note_torn(trail) : r;
    return r == 0 && trail->lost > 0 ? note_lost(trail) : r;
}

static void lose(struct audit_trail *trail, int r)
{
    trail->lost_in_all++;
    if (trail->lost++ == 0) {
        LOG(*trail->options.log, LOG_ERROR, "audit_not_written", LOG_FIELD_STR("audit_log", trail->path),
            LOG_FIELD_STR("error", strerror(-r)));
    }
}

/* ---- Files ---- */

static int open_file(const struct audit_trail *trail, int flags)
{
    /* Not to block, where it is a pipe. */
    int fd = openat(trail->directory, trail->name,
                    O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | flags, 0640);
    return fd < 0 ? -errno : fd;
}

/* A lock that goes with this process, whatever was forked from it. */
static int lock(int fd)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_SETLK, &whole) < 0 ? -errno : 0;
}

/* The members that tell how the file began. */
static int note_opened(struct audit_trail *trail, const char *reason, const char *previous)
{
    struct buf note;
    begin_note(&note, "opened");
    json_out_text(&note, "reason", reason);
    json_out_text(&note, "previous", previous);
    return end_note(trail, &note);
}

static int note_left(struct audit_trail *trail, const char *kind, const char *to)
{
    struct buf note;
    begin_note(&note, kind);
    json_out_text(&note, "to", to);
    return end_note(trail, &note);
}

/* The log is another place, which whoever changes the file may not reach. */
static void tell_end(const struct audit_trail *trail, const char *why)
{
    LOG(*trail->options.log, LOG_INFO, "audit_chain", LOG_FIELD_STR("audit_log", trail->path),
        LOG_FIELD_STR("at", why), LOG_FIELD_U64("seq", trail->last.seq),
        LOG_FIELD_STR("sha256", trail->last.sha256));
}

/* The old file has its name already; `fd` is the new, empty one. */
static void change_over(struct audit_trail *trail, int fd, const char *kind, const char *reason,
                        const char *previous)
{
    int r = note_left(trail, kind, previous);
    tell_end(trail, kind);
    close(trail->fd);
    trail->fd = fd;
    trail->bytes = 0;
    trail->rotate_at = trail->options.max_bytes;
    trail->torn_here = false;
    r = r < 0 ? r : lock(fd);
    r = r < 0 ? r : note_opened(trail, reason, previous);
    if (r < 0) {
        lose(trail, r);
    }
}

static void not_rotated(struct audit_trail *trail, int code)
{
    LOG(*trail->options.log, LOG_ERROR, "audit_not_rotated", LOG_FIELD_STR("audit_log", trail->path),
        LOG_FIELD_STR("error", strerror(code)));
    trail->rotate_at = trail->bytes + trail->options.max_bytes;
}

static void rotate(struct audit_trail *trail)
{
    char name[NAME_MAX + 1];
    rotated_name(trail, trail->last.seq + 1, name, sizeof name);
    if (renameat2(trail->directory, trail->name, trail->directory, name, RENAME_NOREPLACE) < 0) {
        not_rotated(trail, errno);
        return;
    }
    int fd = open_file(trail, O_EXCL);
    if (fd < 0) {
        renameat2(trail->directory, name, trail->directory, trail->name, RENAME_NOREPLACE);
        not_rotated(trail, -fd);
        return;
    }
    change_over(trail, fd, "rotated", "rotated", name);
}

void audit_trail_hangup(struct audit_trail *trail)
{
    struct stat ours, there;
    if (!trail->begun || !trail->regular || fstat(trail->fd, &ours) < 0 ||
        (fstatat(trail->directory, trail->name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
         ours.st_dev == there.st_dev && ours.st_ino == there.st_ino)) {
        return;
    }
    int fd = open_file(trail, O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &there) < 0 || !S_ISREG(there.st_mode) || there.st_size > 0) {
        not_rotated(trail, fd < 0 ? -fd : EEXIST);
        fd_closep(&fd);
        return;
    }
    change_over(trail, fd, "moved", "moved", NULL);
}

/* ---- The trail ---- */

static void trail_free(struct audit_trail *trail)
{
    fd_closep(&trail->fd);
    fd_closep(&trail->directory);
    buf_free(&trail->line);
    free(trail->path);
    free(trail);
}

static int open_directory(struct audit_trail *trail, struct err *reterr)
{
    char *slash = strrchr(trail->path, '/');
    trail->name = slash ? slash + 1 : trail->path;
    if (!slash || slash == trail->path) {
        trail->directory = open(slash ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    } else {
        *slash = '\0';
        trail->directory = open(trail->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        *slash = '/';
    }
    if (trail->directory < 0) {
        return cannot("open the directory of", trail->path, errno, reterr);
    }
    /* Room for the number of a rotated file. */
    if (strlen(trail->name) > NAME_MAX - 24 || trail->name[0] == '\0') {
        return cannot("use the name", trail->path, trail->name[0] ? ENAMETOOLONG : EISDIR, reterr);
    }
    return 0;
}

static bool is_missing(const struct audit_trail *trail)
{
    return faccessat(trail->directory, trail->name, F_OK, AT_EACCESS) < 0 && errno == ENOENT;
}

/* The file would be made in it. */
static int check_directory(const struct audit_trail *trail, struct err *reterr)
{
    return faccessat(trail->directory, ".", W_OK | X_OK, AT_EACCESS) < 0
               ? cannot("make", trail->path, errno, reterr)
               : 0;
}

static int open_trail(struct audit_trail *trail, struct err *reterr)
{
    struct stat stat;
    trail->fd = open_file(trail, 0);
    if (trail->fd < 0 || fstat(trail->fd, &stat) < 0) {
        return cannot("open", trail->path, trail->fd < 0 ? -trail->fd : errno, reterr);
    }
    trail->regular = S_ISREG(stat.st_mode);
    trail->rotate_at = trail->options.max_bytes;
    return recover(trail, reterr);
}

int audit_trail_open(const struct audit_trail_options *options, struct audit_trail **ret, struct err *reterr)
{
    struct audit_trail *trail = calloc(1, sizeof *trail);
    char *path = strdup(options->path);
    if (!trail || !path) {
        free(trail);
        free(path);
        return err_errno(reterr, ENOMEM, "opening the audit log");
    }
    *trail = (struct audit_trail){.options = *options, .path = path, .directory = -1, .fd = -1};
    int r = open_directory(trail, reterr);
    if (r == 0) {
        r = options->only_look && is_missing(trail) ? check_directory(trail, reterr)
                                                    : open_trail(trail, reterr);
    }
    if (r < 0) {
        trail_free(trail);
        return r;
    }
    *ret = trail;
    return 0;
}

int audit_trail_begin(struct audit_trail *trail, const char *reason, struct err *reterr)
{
    if (trail->regular && lock(trail->fd) < 0) {
        return err_set(reterr, ERR_CONFIG, EBUSY, "audit_log", "another process writes to %.150s",
                       trail->path);
    }
    int r = recover(trail, reterr); /* as it is now that it is ours */
    if (r < 0) {
        return r;
    }
    r = catch_up(trail);
    r = r < 0 ? r : note_opened(trail, reason, NULL);
    if (r < 0) {
        return cannot("write to", trail->path, -r, reterr);
    }
    trail->begun = true;
    return 0;
}

void audit_trail_close(struct audit_trail *trail)
{
    if (!trail) {
        return;
    }
    if (trail->begun) {
        int r = catch_up(trail);
        r = r < 0 ? r : note_left(trail, "closed", NULL);
        if (r < 0) {
            lose(trail, r);
        }
        tell_end(trail, "closed");
    }
    trail_free(trail);
}

const char *audit_trail_path(const struct audit_trail *trail)
{
    return trail->path;
}

uint64_t audit_trail_lost(const struct audit_trail *trail)
{
    return trail->lost_in_all;
}

void audit_trail_set_max_bytes(struct audit_trail *trail, uint64_t max_bytes)
{
    trail->options.max_bytes = trail->rotate_at = max_bytes;
}

void audit_trail_append(struct audit_trail *trail, const char *line, size_t size)
{
    if (trail->regular && trail->rotate_at > 0 && trail->bytes > 0 &&
        trail->bytes + size > trail->rotate_at && trail->lost == 0) {
        rotate(trail);
    }
    int r = catch_up(trail);
    r = r < 0 ? r : write_link(trail, line + 1, size - 1); /* without its brace */
    if (r < 0) {
        lose(trail, r);
    }
}
