/* The kernel's texts, parsed. Runs in the parent. Nobody but the kernel writes them, but some of their words
 * are chosen by others: names of processes, of cgroups, of mount points. */
#include "jail/base/proc_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_octal(char c)
{
    return c >= '0' && c <= '7';
}

/* The kernel writes blanks, line breaks and backslashes of a path as a backslash and three octal digits. */
static void unescape(char *path)
{
    char *to = path;
    for (const char *from = path; *from; to++) {
        if (from[0] == '\\' && is_octal(from[1]) && is_octal(from[2]) && is_octal(from[3])) {
            *to = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

static char *next_word(char **save)
{
    return strtok_r(NULL, " ", save);
}

/* One line of mountinfo: true if it is a cgroup2 mount; points `*ret_root` and `*ret_point` into the line. */
static bool parse_mountinfo_line(char *line, char **ret_root, char **ret_point)
{
    char *dash = strstr(line, " - ");
    if (!dash || strncmp(dash + 3, "cgroup2 ", 8) != 0) {
        return false;
    }
    *dash = '\0';
    char *save = NULL;
    if (!strtok_r(line, " ", &save) || !next_word(&save) || !next_word(&save)) {
        return false;
    }
    *ret_root = next_word(&save);
    *ret_point = next_word(&save);
    if (!*ret_root || !*ret_point) {
        return false;
    }
    unescape(*ret_root);
    unescape(*ret_point);
    return true;
}

/* What of `own` lies below `root`: "" or a path with a leading slash; NULL: it lies elsewhere. */
static const char *below(const char *root, const char *own)
{
    size_t length = strcmp(root, "/") == 0 ? 0 : strlen(root);
    if (strncmp(own, root, length) != 0 || (own[length] != '/' && own[length] != '\0')) {
        return NULL;
    }
    return strcmp(own + length, "/") == 0 ? "" : own + length;
}

int proc_text_cgroup_path(const char *own, char *mountinfo, char **ret)
{
    char *save = NULL;
    for (char *line = strtok_r(mountinfo, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *root, *point;
        const char *rest = parse_mountinfo_line(line, &root, &point) ? below(root, own) : NULL;
        if (rest) {
            return asprintf(ret, "%s%s", point, rest) < 0 ? -ENOMEM : 0;
        }
    }
    return -ENOENT;
}

const char *proc_text_own_cgroup(char *cgroup)
{
    char *save = NULL;
    for (char *line = strtok_r(cgroup, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (strncmp(line, "0::", 3) == 0) {
            return line + 3;
        }
    }
    return NULL;
}

bool proc_text_maps_range(char *map, uint32_t base, uint32_t count)
{
    const uint64_t end = (uint64_t)base + count;
    uint64_t covered = 0;
    char *save = NULL;
    for (char *line = strtok_r(map, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        uint64_t first, outside, length;
        if (sscanf(line, "%lu %lu %lu", &first, &outside, &length) != 3 || first > UINT32_MAX ||
            length > UINT32_MAX) {
            continue;
        }
        uint64_t from = first > base ? first : base;
        uint64_t to = first + length < end ? first + length : end;
        covered += to > from ? to - from : 0; /* the kernel lets no two lines overlap */
    }
    return covered == count;
}

int proc_text_stat(const char *stat, struct proc_stat *ret)
{
    /* Fields 3 to 24, counted behind the name, which may hold anything. */
    const char *p = strrchr(stat, ')');
    unsigned long long utime, stime, cutime, cstime, pages;
    struct proc_stat parsed;
    if (!p ||
        sscanf(p + 1,
               " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu %*d %*d %d %*d %*u %*u %llu",
               &parsed.parent, &utime, &stime, &cutime, &cstime, &parsed.threads, &pages) != 7) {
        return -EINVAL;
    }
    parsed.resident_pages = pages;
    parsed.cpu_ticks = utime + stime + cutime + cstime;
    *ret = parsed;
    return 0;
}

/* A process chooses its name, which is in the first line of its status; but no name has a line's end in
 * there. */
uint64_t proc_text_bytes(const char *text, const char *key)
{
    for (const char *at = strstr(text, key); at; at = strstr(at + 1, key)) {
        if (at == text || at[-1] == '\n') {
            return strtoull(at + strlen(key), NULL, 10) * 1024;
        }
    }
    return 0;
}
