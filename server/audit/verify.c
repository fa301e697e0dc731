/* Walks along the chain of an audit trail and tells where it does not hold. Runs in `immure audit verify`,
 * which needs nothing but the files.
 *
 * A line is held against the one before it: its number must be the next one and its `prev` that line's hash.
 * After a fault the walk goes on from the line that is there, so that each fault is told once. A line that no
 * longer parses is forgiven if the next one is the trail's own word about it: a crash cut it off. */
#include "server/audit/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/format/json.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"

struct file {
    const char *path;
    FILE *stream;
    uint64_t first_seq; /* UINT64_MAX: its first line has none */
    size_t place;       /* in the order that was given */
};

struct walk {
    const struct audit_report *report;
    const char *contains;
    struct audit_verdict *verdict;
    const char *file;
    uint64_t line;
    bool begun;
    struct audit_link last;
    /* A line that is none, until the next one tells what it was. */
    struct {
        bool is_there, complete;
        const char *file;
        uint64_t line, bytes;
        char sha256[SHA256_HEX];
    } odd;
};

static void tell(struct walk *walk, bool fault, const char *file, uint64_t line, const char *text)
{
    walk->verdict->faults += fault;
    walk->report->tell(walk->report->arg, fault, file, line, text);
}

static void fault(struct walk *walk, const char *text)
{
    tell(walk, true, walk->file, walk->line, text);
}

static bool is_kind(const char *kind, size_t size, const char *word)
{
    return kind && strlen(word) == size && memcmp(kind, word, size) == 0;
}

/* What the number of a line tells about those that should be before it. */
static void tell_number(struct walk *walk, uint64_t seq)
{
    char text[160];
    uint64_t due = walk->last.seq + 1;
    if (seq == due + 1) {
        snprintf(text, sizeof text, "line number %" PRIu64 " is missing before it", due);
    } else if (seq > due) {
        snprintf(text, sizeof text, "line numbers %" PRIu64 " to %" PRIu64 " are missing before it", due,
                 seq - 1);
    } else {
        snprintf(text, sizeof text,
                 "it has the number %" PRIu64 " where %" PRIu64 " is due: inserted, repeated or moved", seq,
                 due);
    }
    fault(walk, text);
}

/* The odd line was neither a crash's nor anybody else's that the trail knows of. */
static void blame_odd(struct walk *walk)
{
    if (walk->odd.is_there) {
        tell(walk, true, walk->odd.file, walk->odd.line,
             walk->odd.complete ? "it is no line of an audit chain: changed or inserted"
                                : "it is cut off, and no later line says why");
        walk->odd.is_there = false;
    }
}

/* True if this line is what the trail wrote about the odd one. */
static bool explains_odd(struct walk *walk, const struct audit_link *prev, const char *kind, size_t size)
{
    if (!walk->odd.is_there || !is_kind(kind, size, "torn") || strcmp(prev->sha256, walk->odd.sha256) != 0 ||
        (walk->begun && prev->seq != walk->last.seq)) {
        return false;
    }
    walk->odd.is_there = false;
    tell(walk, false, walk->odd.file, walk->odd.line, "it was cut off by a crash, as the next line says");
    return true;
}

static void hold_against(struct walk *walk, const struct audit_link *prev)
{
    if (!walk->begun) {
        walk->verdict->first_prev = *prev;
    } else if (prev->seq != walk->last.seq) {
        tell_number(walk, prev->seq + 1);
    } else if (strcmp(prev->sha256, walk->last.sha256) != 0) {
        fault(walk,
              "the line before it is not the one that it was written after: one of the two was changed");
    }
}

/* What the trail says of itself. */
static void take_kind(struct walk *walk, const char *kind, size_t size, bool was_closed)
{
    if (is_kind(kind, size, "lost")) {
        tell(walk, false, walk->file, walk->line, "lines before it could not be written, as it says");
    }
    if (is_kind(kind, size, "opened") && walk->begun && !was_closed) {
        tell(walk, false, walk->file, walk->line,
             "the server had not stopped in order before it: a crash, or lines cut off behind the last one");
    }
    walk->verdict->closed =
        is_kind(kind, size, "closed") || is_kind(kind, size, "rotated") || is_kind(kind, size, "moved");
}

static bool is_json(const char *line, size_t size)
{
    struct json_doc *doc = NULL;
    bool valid = json_parse(line, size, &doc, NULL) == 0;
    json_free(doc);
    return valid;
}

static void take_line(struct walk *walk, const char *line, size_t size, bool complete)
{
    struct audit_link prev;
    const char *kind;
    size_t kind_size;
    char sha256[SHA256_HEX];
    walk->line++;
    walk->verdict->lines++;
    sha256_hex_of(line, size, sha256);
    if (walk->contains && strcmp(sha256, walk->contains) == 0) {
        walk->verdict->contains = true;
    }
    if (!complete || !audit_chain_parse(line, size, &prev, &kind, &kind_size)) {
        blame_odd(walk);
        walk->odd.is_there = true;
        walk->odd.complete = complete;
        walk->odd.file = walk->file;
        walk->odd.line = walk->line;
        memcpy(walk->odd.sha256, sha256, sizeof sha256);
        return;
    }
    if (!explains_odd(walk, &prev, kind, kind_size)) {
        blame_odd(walk);
        hold_against(walk, &prev);
    } else if (!walk->begun) {
        walk->verdict->first_prev = prev;
    }
    if (!is_json(line, size)) {
        fault(walk, "it is not JSON: the process that sent it was not the program that it should be");
    }
    take_kind(walk, kind, kind_size, walk->verdict->closed);
    walk->begun = true;
    walk->last.seq = prev.seq + 1;
    memcpy(walk->last.sha256, sha256, sizeof sha256);
}

static void take_file(struct walk *walk, const struct file *file)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t size;
    walk->file = file->path;
    walk->line = 0;
    while ((size = getline(&line, &room, file->stream)) > 0) {
        bool complete = line[size - 1] == '\n';
        take_line(walk, line, (size_t)size - complete, complete);
    }
    free(line);
}

static int open_file(struct file *file, struct err *reterr)
{
    struct audit_link prev;
    const char *kind;
    char *line = NULL;
    size_t room = 0, kind_size;
    int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    file->stream = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (!file->stream) {
        int code = errno;
        fd_closep(&fd);
        return err_set(reterr, ERR_CONFIG, code, file->path, "%s", strerror(code));
    }
    errno = 0;
    ssize_t size = getline(&line, &room, file->stream);
    int code = errno;
    bool valid = size > 1 && audit_chain_parse(line, (size_t)size - 1, &prev, &kind, &kind_size);
    file->first_seq = valid ? prev.seq + 1 : UINT64_MAX;
    free(line);
    if (size < 0 && code != 0) {
        return err_set(reterr, ERR_CONFIG, code, file->path, "%s", strerror(code));
    }
    return fseeko(file->stream, 0, SEEK_SET) < 0
               ? err_set(reterr, ERR_CONFIG, errno, file->path, "%s", strerror(errno))
               : 0;
}

static int compare_files(const void *a, const void *b)
{
    const struct file *left = a, *right = b;
    if (left->first_seq != right->first_seq) {
        return left->first_seq < right->first_seq ? -1 : 1;
    }
    return left->place < right->place ? -1 : left->place > right->place;
}

static void close_files(struct file *files, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (files[i].stream) {
            fclose(files[i].stream);
        }
    }
    free(files);
}

int audit_verify(const char *const *paths, size_t n, const char *contains, const struct audit_report *report,
                 struct audit_verdict *ret, struct err *reterr)
{
    struct file *files = calloc(n, sizeof *files);
    if (!files) {
        return err_errno(reterr, ENOMEM, "verifying an audit trail");
    }
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        files[i] = (struct file){.path = paths[i], .place = i};
        r = open_file(&files[i], reterr);
    }
    *ret = (struct audit_verdict){.first_prev = audit_chain_start()};
    struct walk walk = {.report = report, .contains = contains, .verdict = ret, .last = audit_chain_start()};
    if (r == 0) {
        qsort(files, n, sizeof *files, compare_files);
        for (size_t i = 0; i < n; i++) {
            take_file(&walk, &files[i]);
        }
        blame_odd(&walk);
        ret->last = walk.last;
    }
    close_files(files, n);
    return r;
}
