/* The audit log's file. Runs in the warden, its only writer: a front sends lines and has no descriptor of the
 * file, so that one that was taken over can add false lines and leave out true ones, but change none.
 *
 * What must hold: each line is the next link of the chain that the file, or the one that was rotated before,
 * ends with; whatever cannot be written is said in the chain later; nothing that is in a file is ever written
 * over. */
#include "server/audit/trail.h"

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
#include "server/audit/files.h"
#include "server/kit/json_out.h"
#include "server/kit/log.h"

/* What the disk must have room for before a job begins: the ends of those that run. And how much it is asked
 * for at once. */
#define RESERVE_LEAST ((uint64_t)64 << 10)
#define RESERVE_BYTES ((int64_t)256 << 10)

/* Files that have been kept for long enough: the warden has other duties. */
#define REMOVED_AT_ONCE 32

#define MS_PER_DAY ((uint64_t)24 * 3600 * 1000)

struct audit_trail {
    struct audit_trail_options options;
    char *path;
    const char *name; /* in the directory; of `path` */
    int directory, fd;
    bool regular;       /* else nothing is found in it, and it is not rotated: /dev/null, a pipe */
    bool begun;         /* lines have been written, and the lock is ours */
    bool unsure;        /* a write went wrong: the end is to be looked for again */
    int failure;        /* an errno: why something could not be written, or a file not be left; 0: nothing
                         * since it last could */
    bool to_leave;      /* the file could not be left when it was time */
    uint64_t bytes;     /* in the file */
    uint64_t reserved;  /* up to there the disk has room for the file */
    uint64_t begun_ms;  /* when its first line was written; 0: nobody knows */
    uint64_t rotate_at; /* 0: never */
    struct audit_link last;
    size_t torn_bytes; /* of a line that a crash cut off, whose hash is `last`'s; 0: none */
    bool torn_here;    /* at the end of this very file */
    uint64_t lost;     /* lines that could not be written since the last one that could */
    uint64_t lost_in_all;
    struct buf line; /* kept between lines */
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

/* The chain goes on where the file before ended. */
static int find_end_before(const struct audit_trail *trail, struct audit_end *ret)
{
    char name[NAME_MAX + 1];
    uint64_t newest = audit_rotated_newest(trail->directory, trail->name), bytes;
    *ret = (struct audit_end){.last = audit_chain_start()};
    if (newest == 0) {
        return 0;
    }
    audit_rotated_name(trail->name, newest, name);
    CLEANUP(fd_closep) int fd = openat(trail->directory, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW);
    return fd < 0 ? -errno : audit_find_end(fd, &bytes, ret);
}

static int recover(struct audit_trail *trail, struct err *reterr)
{
    struct audit_end end = {.last = audit_chain_start()}, before;
    trail->last = end.last;
    trail->torn_bytes = 0;
    if (!trail->regular) {
        return 0;
    }
    int r = audit_find_end(trail->fd, &trail->bytes, &end);
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
    trail->begun_ms = audit_find_beginning_ms(trail->fd);
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
        trail->reserved = 0;
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

/* Has the disk keep room for what jobs that run have to say at their ends. */
static int reserve(struct audit_trail *trail)
{
    if (!trail->regular || trail->bytes + RESERVE_LEAST <= trail->reserved) {
        return 0;
    }
    int r = fallocate(trail->fd, FALLOC_FL_KEEP_SIZE, (off_t)trail->bytes, RESERVE_BYTES);
    if (r < 0 && errno != EOPNOTSUPP && errno != ENOSYS && errno != EINTR) {
        return -errno;
    }
    trail->reserved = trail->bytes + (r == 0 ? RESERVE_BYTES : 0);
    return 0;
}

/* What has been reserved and is not needed. */
static void give_back(const struct audit_trail *trail)
{
    if (trail->reserved > trail->bytes && !trail->unsure && ftruncate(trail->fd, (off_t)trail->bytes) < 0) {
        return; /* the room stays taken until the file is removed */
    }
}

static void lose(struct audit_trail *trail, int r)
{
    trail->failure = -r;
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
    give_back(trail);
    close(trail->fd);
    trail->fd = fd;
    trail->bytes = trail->reserved = 0;
    trail->begun_ms = clock_wall_ms();
    trail->rotate_at = trail->options.limits.max_bytes;
    trail->torn_here = trail->to_leave = false;
    r = r < 0 ? r : audit_lock(fd);
    r = r < 0 ? r : note_opened(trail, reason, previous);
    if (r < 0) {
        lose(trail, r);
    }
}

static void not_rotated(struct audit_trail *trail, int code)
{
    trail->failure = code;
    LOG(*trail->options.log, LOG_ERROR, "audit_not_rotated", LOG_FIELD_STR("audit_log", trail->path),
        LOG_FIELD_STR("error", strerror(code)));
    trail->to_leave = true;
    uint64_t max_bytes = trail->options.limits.max_bytes;
    trail->rotate_at = max_bytes > 0 ? trail->bytes + max_bytes : 0;
}

/* One of the files that have been left; false: none is to go. */
static bool remove_eldest(struct audit_trail *trail)
{
    const struct audit_trail_limits *limits = &trail->options.limits;
    char name[NAME_MAX + 1];
    struct stat stat;
    struct buf note;
    size_t n;
    uint64_t eldest = audit_rotated_eldest(trail->directory, trail->name, &n);
    audit_rotated_name(trail->name, eldest, name);
    if (eldest == 0 || fstatat(trail->directory, name, &stat, AT_SYMLINK_NOFOLLOW) < 0) {
        return false;
    }
    uint64_t kept_until_ms = ((uint64_t)stat.st_mtim.tv_sec + 1) * 1000 + limits->keep_days * MS_PER_DAY;
    bool is_old = limits->keep_days > 0 && clock_wall_ms() > kept_until_ms;
    if ((limits->keep_files == 0 || n <= limits->keep_files) && !is_old) {
        return false;
    }
    if (unlinkat(trail->directory, name, 0) < 0) {
        LOG(*trail->options.log, LOG_ERROR, "audit_not_removed", LOG_FIELD_STR("file", name),
            LOG_FIELD_STR("error", strerror(errno)));
        return false;
    }
    LOG(*trail->options.log, LOG_INFO, "audit_removed", LOG_FIELD_STR("file", name));
    int r = catch_up(trail);
    if (r == 0) {
        begin_note(&note, "removed");
        json_out_text(&note, "file", name);
        r = end_note(trail, &note);
    }
    if (r < 0) {
        lose(trail, r);
    }
    return true;
}

/* True: there may be more. */
static bool remove_old(struct audit_trail *trail)
{
    int n = 0;
    while (n < REMOVED_AT_ONCE && remove_eldest(trail)) {
        n++;
    }
    return n == REMOVED_AT_ONCE;
}

void audit_trail_hangup(struct audit_trail *trail)
{
    struct stat stat;
    if (!trail->begun || !trail->regular || audit_is_in_place(trail->directory, trail->name, trail->fd)) {
        return;
    }
    int fd = open_file(trail, O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &stat) < 0 || !S_ISREG(stat.st_mode) || stat.st_size > 0) {
        not_rotated(trail, fd < 0 ? -fd : EEXIST);
        fd_closep(&fd);
        return;
    }
    change_over(trail, fd, "moved", "moved", NULL);
}

static void rotate(struct audit_trail *trail)
{
    char name[NAME_MAX + 1];
    if (!audit_is_in_place(trail->directory, trail->name, trail->fd)) {
        audit_trail_hangup(trail); /* what has the name is not ours to rename */
        return;
    }
    audit_rotated_name(trail->name, trail->last.seq + 1, name);
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
    remove_old(trail);
}

bool audit_trail_tend(struct audit_trail *trail)
{
    uint64_t now_ms = clock_wall_ms();
    if (!trail->begun || !trail->regular) {
        return false;
    }
    if (trail->options.limits.keep_days > 0 && trail->begun_ms > 0 && trail->bytes > 0 &&
        now_ms > trail->begun_ms + MS_PER_DAY && trail->lost == 0) {
        rotate(trail);
    }
    return remove_old(trail);
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
    trail->rotate_at = trail->options.limits.max_bytes;
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
    if (trail->regular && audit_lock(trail->fd) < 0) {
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
        give_back(trail);
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

void audit_trail_set_limits(struct audit_trail *trail, const struct audit_trail_limits *limits)
{
    trail->options.limits = *limits;
    trail->to_leave = false;
    trail->rotate_at = limits->max_bytes;
}

static int write_line(struct audit_trail *trail, const char *line, size_t size)
{
    if (trail->regular && trail->rotate_at > 0 && trail->bytes > 0 &&
        trail->bytes + size > trail->rotate_at && trail->lost == 0) {
        rotate(trail);
    }
    int r = catch_up(trail);
    return r < 0 ? r : write_link(trail, line + 1, size - 1); /* without its brace */
}

void audit_trail_append(struct audit_trail *trail, const char *line, size_t size)
{
    int r = write_line(trail, line, size);
    if (r < 0) {
        lose(trail, r);
    }
}

int audit_trail_demand(struct audit_trail *trail, const char *line, size_t size)
{
    int r = trail->failure ? -trail->failure : reserve(trail);
    r = r < 0 ? r : write_line(trail, line, size);
    trail->failure = r < 0 ? -r : trail->failure;
    return r;
}

int audit_trail_failure(const struct audit_trail *trail)
{
    return trail->failure;
}

/* A line is the proof, also where none was lost; it is written to the file that is to be written to. */
int audit_trail_mend(struct audit_trail *trail)
{
    struct buf note;
    if (trail->regular) {
        remove_old(trail); /* may make the room that is missing */
    }
    int r = reserve(trail);
    r = r < 0 ? r : catch_up(trail);
    if (r < 0) {
        return r;
    }
    trail->failure = 0;
    trail->rotate_at = trail->options.limits.max_bytes;
    if (trail->regular && (trail->to_leave || !audit_is_in_place(trail->directory, trail->name, trail->fd))) {
        rotate(trail);
    }
    r = trail->failure ? -trail->failure : reserve(trail);
    if (r == 0) {
        begin_note(&note, "resumed");
        r = end_note(trail, &note);
    }
    trail->failure = -r;
    return r;
}
