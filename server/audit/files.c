/* The files of an audit trail, as they are found. Runs in the warden. Nothing is written here. */
#include "server/audit/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"

/* A rotated file's name ends in the number of its last line, so that names sort as the lines do. */
#define ROTATED_DIGITS 12

/* A first line is the trail's own, and short. */
#define BEGINNING_BYTES 512

static const char *last_line_feed(const char *data, size_t size)
{
    return size > 0 ? memrchr(data, '\n', size) : NULL;
}

/* `tail` is the end of a file; `whole`: and its beginning. */
static int read_end(const char *tail, size_t size, bool whole, struct audit_end *ret)
{
    const char *feed = last_line_feed(tail, size);
    const char *torn = feed ? feed + 1 : tail;
    size_t torn_bytes = size - (size_t)(torn - tail);
    *ret = (struct audit_end){.torn_bytes = torn_bytes};
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

int audit_find_end(int fd, uint64_t *ret_bytes, struct audit_end *ret)
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

uint64_t audit_find_beginning_ms(int fd)
{
    static const char member[] = "\"time\":\"";
    char data[BEGINNING_BYTES];
    ssize_t n = pread(fd, data, sizeof data - 1, 0);
    data[n > 0 ? n : 0] = '\0';
    data[strcspn(data, "\n")] = '\0';
    const char *at = strstr(data, member);
    struct tm tm = {0};
    if (!at || !strptime(at + sizeof member - 1, "%Y-%m-%dT%H:%M:%S", &tm)) {
        return 0;
    }
    time_t s = timegm(&tm);
    return s > 0 ? (uint64_t)s * (NS_PER_S / NS_PER_MS) : 0;
}

int audit_lock(int fd)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_SETLK, &whole) < 0 ? -errno : 0;
}

bool audit_is_in_place(int directory, const char *name, int fd)
{
    struct stat ours, there;
    return fstat(fd, &ours) == 0 && fstatat(directory, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

void audit_rotated_name(const char *name, uint64_t number, char ret[static NAME_MAX + 1])
{
    snprintf(ret, NAME_MAX + 1, "%s.%0*" PRIu64, name, ROTATED_DIGITS, number);
}

/* NAME.000000000042 -> 42; 0: another file, also where it has other digits behind its name. */
static uint64_t rotated_number(const char *name, const struct dirent *found)
{
    char again[NAME_MAX + 1];
    size_t length = strlen(name);
    if (strncmp(found->d_name, name, length) != 0 || found->d_name[length] != '.' ||
        (found->d_type != DT_REG && found->d_type != DT_UNKNOWN)) {
        return 0;
    }
    uint64_t number = strtoull(found->d_name + length + 1, NULL, 10);
    audit_rotated_name(name, number, again);
    return strcmp(found->d_name, again) == 0 ? number : 0;
}

struct rotated {
    uint64_t eldest, newest; /* their numbers; 0: there is none */
    size_t n;
};

static struct rotated look(int directory, const char *name)
{
    struct rotated found = {0};
    int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
    if (!stream) {
        fd_closep(&fd);
        return found;
    }
    const struct dirent *entry;
    while ((entry = readdir(stream))) {
        uint64_t number = rotated_number(name, entry);
        found.n += number > 0;
        found.newest = number > found.newest ? number : found.newest;
        found.eldest = number > 0 && (found.eldest == 0 || number < found.eldest) ? number : found.eldest;
    }
    closedir(stream);
    return found;
}

uint64_t audit_rotated_newest(int directory, const char *name)
{
    return look(directory, name).newest;
}

uint64_t audit_rotated_eldest(int directory, const char *name, size_t *ret_n)
{
    const struct rotated found = look(directory, name);
    *ret_n = found.n;
    return found.eldest;
}
