/* Follows a path as the kernel will, and writes down what lies on it. Runs in the command line, with the
 * rights of the program that is watched: what is closed to that is closed here. */
#include "policy/learn/walk.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "policy/learn/observed.h"

#define LINKS_MAX   40
#define SCRIPTS_MAX 4
#define HEAD_BYTES  4096

struct walk {
    struct observed *observed;
    char path[PATH_MAX];     /* without links, as far as it has been followed */
    char rest[2 * PATH_MAX]; /* still to be followed */
    int links;
    bool follow, private;
    int error; /* an errno; ENOENT: it is not there */
    struct stat st;
};

/* Appends "/NAME"; false: too long. */
static bool append(char path[PATH_MAX], const char *name, size_t length)
{
    size_t at = strlen(path);
    at = strcmp(path, "/") == 0 ? 0 : at;
    if (at + length + 2 > PATH_MAX) {
        return false;
    }
    path[at] = '/';
    memcpy(path + at + 1, name, length);
    path[at + 1 + length] = '\0';
    return true;
}

static void remove_last(char *path)
{
    char *slash = strrchr(path, '/');
    slash[slash == path] = '\0';
}

/* The link at `path` takes the place of what is to be followed. */
static void follow_link(struct walk *walk)
{
    char target[PATH_MAX], rest[2 * PATH_MAX];
    ssize_t n = readlink(walk->path, target, sizeof target - 1);
    if (n <= 0 || ++walk->links > LINKS_MAX) {
        walk->error = n <= 0 ? errno : ELOOP;
        return;
    }
    target[n] = '\0';
    observed_add_path(walk->observed, walk->path, PATH_LINK, target);
    int length = snprintf(rest, sizeof rest, "%s/%s", target, walk->rest);
    if (length >= (int)sizeof rest) {
        walk->error = ENAMETOOLONG;
        return;
    }
    memcpy(walk->rest, rest, (size_t)length + 1);
    if (target[0] == '/') {
        strcpy(walk->path, "/");
    } else {
        remove_last(walk->path);
    }
}

/* One part of the path. */
static void step(struct walk *walk)
{
    const char *part = walk->rest + strspn(walk->rest, "/");
    size_t length = strcspn(part, "/");
    bool last = part[length + strspn(part + length, "/")] == '\0';
    char name[NAME_MAX + 1];
    if (length > NAME_MAX) {
        walk->error = ENAMETOOLONG;
        return;
    }
    memcpy(name, part, length);
    name[length] = '\0';
    memmove(walk->rest, part + length, strlen(part + length) + 1);
    if (length == 0 || strcmp(name, ".") == 0) {
        return;
    }
    if (strcmp(name, "..") == 0) {
        remove_last(walk->path);
        return;
    }
    if (!append(walk->path, name, length)) {
        walk->error = ENAMETOOLONG;
        return;
    }
    if (lstat(walk->path, &walk->st) < 0) {
        /* What is missing in the middle cannot be made either. */
        walk->error = errno == ENOENT && !last ? ENOTDIR : errno;
        return;
    }
    if (S_ISLNK(walk->st.st_mode) && (walk->follow || !last)) {
        follow_link(walk);
        return;
    }
    walk->private |= S_ISDIR(walk->st.st_mode) && !last && !(walk->st.st_mode & S_IXOTH);
}

/* Those of a process are its own in a jail, too: which number it had says nothing. */
static void note_proc(struct observed *observed, const char *rest, unsigned how)
{
    const char *name = rest + strspn(rest, "/");
    size_t digits = strspn(name, "0123456789");
    bool number = digits > 0 && (name[digits] == '/' || name[digits] == '\0');
    char path[2 * PATH_MAX + 16];
    snprintf(path, sizeof path, "/proc/%s%s", number ? "self" : "", name + (number ? digits : 0));
    observed_add_path(observed, path, how & ~(unsigned)PATH_CREATED, NULL);
}

static void walk_to_end(struct walk *walk, unsigned how)
{
    while (walk->error == 0 && walk->rest[strspn(walk->rest, "/")] != '\0') {
        if (strcmp(walk->path, "/proc") == 0) {
            /* What it shows depends on who looks. */
            note_proc(walk->observed, walk->rest, how);
            walk->error = EXDEV;
            return;
        }
        step(walk);
    }
}

/* Whether this user may do that. */
static bool is_refused(const char *path, unsigned how)
{
    int mode =
        (how & PATH_READ ? R_OK : 0) | (how & PATH_WRITTEN ? W_OK : 0) | (how & PATH_EXECUTED ? X_OK : 0);
    return mode != 0 && faccessat(AT_FDCWD, path, mode, AT_EACCESS) < 0 &&
           (errno == EACCES || errno == EPERM);
}

/* The program's loader, or a script's interpreter, which the kernel opens without a call. */
static bool find_starter(const char *path, char ret[PATH_MAX])
{
    char head[HEAD_BYTES + 1];
    Elf64_Ehdr header;
    Elf64_Phdr segment;
    CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t n = fd < 0 ? -1 : pread(fd, head, HEAD_BYTES, 0);
    if (n < 4) {
        return false;
    }
    head[n] = '\0';
    if (strncmp(head, "#!", 2) == 0) {
        const char *word = head + 2 + strspn(head + 2, " \t");
        snprintf(ret, PATH_MAX, "%.*s", (int)strcspn(word, " \t\n"), word);
        return ret[0] == '/';
    }
    memcpy(&header, head, sizeof header);
    if (n < (ssize_t)sizeof header || memcmp(head, ELFMAG, SELFMAG) != 0 || head[EI_CLASS] != ELFCLASS64) {
        return false;
    }
    for (size_t i = 0; i < header.e_phnum; i++) {
        off_t at = (off_t)(header.e_phoff + i * sizeof segment);
        if (pread(fd, &segment, sizeof segment, at) == (ssize_t)sizeof segment &&
            segment.p_type == PT_INTERP && segment.p_filesz < PATH_MAX) {
            n = pread(fd, ret, segment.p_filesz, (off_t)segment.p_offset);
            ret[n > 0 ? n : 0] = '\0';
            return n > 1 && ret[0] == '/';
        }
    }
    return false;
}

/* What stands at the end, in words of its own. */
static void note_end(struct walk *walk, unsigned how)
{
    bool directory = S_ISDIR(walk->st.st_mode);
    how &= ~(unsigned)PATH_CREATED;
    how |= directory ? PATH_DIRECTORY : 0;
    how |= walk->private || !(walk->st.st_mode & S_IROTH) ? PATH_PRIVATE : 0;
    how |= is_refused(walk->path, how) ? PATH_REFUSED : 0;
    observed_add_path(walk->observed, walk->path, how, NULL);
}

void walk_path(struct observed *observed, const char *base, const char *text, unsigned how, bool follow)
{
    char starter[PATH_MAX];
    for (int depth = 0; depth < SCRIPTS_MAX; depth++) {
        struct walk walk = {.observed = observed, .path = "/", .follow = follow};
        snprintf(walk.rest, sizeof walk.rest, "%s/%s", text[0] == '/' ? "" : base, text);
        if (lstat("/", &walk.st) < 0) {
            return;
        }
        walk_to_end(&walk, how);
        if (walk.error == ENOENT && how & PATH_CREATED) {
            observed_add_path(observed, walk.path, PATH_CREATED, NULL);
        } else if (walk.error == EACCES) {
            observed_add_path(observed, walk.path, PATH_REFUSED, NULL);
        } else if (walk.error == 0) {
            note_end(&walk, how);
        }
        if (walk.error != 0 || !(how & PATH_EXECUTED) || !find_starter(walk.path, starter)) {
            return;
        }
        text = starter;
        how = PATH_EXECUTED | PATH_READ;
        follow = true;
    }
}
