/* Why there is no such file. Runs in PID 1 when the program's process could not become the program: in the
 * finished root, so that links lead where they led the kernel, and nobody outside has to follow them.
 *
 * The program may be a file of the job's own. What is read of it can only become a word in an error, and one
 * that changes meanwhile yields a wrong one. */
#include "jail/child/missing.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/child/child.h"
#include "jail/child/step.h"

#define LINKS_MAX    40 /* as the kernel has it */
#define HEAD_BYTES   4096
#define SCRIPTS_MAX  4 /* interpreters that are scripts themselves */
#define PROGRAMS_MAX 64

#if __SIZEOF_POINTER__ == 8
typedef Elf64_Ehdr elf_header;
typedef Elf64_Phdr elf_program;
#else
typedef Elf32_Ehdr elf_header;
typedef Elf32_Phdr elf_program;
#endif

/* A path under way: what has been walked, without links, and what is left of it. */
struct walk {
    char done[PATH_MAX], left[PATH_MAX];
};

static bool append(char *to, const char *text, size_t length)
{
    size_t at = strlen(to);
    if (at + length + 2 > PATH_MAX) {
        return false;
    }
    to[at] = '/';
    memcpy(to + at + 1, text, length);
    to[at + 1 + length] = '\0';
    return true;
}

static void go_up(struct walk *walk)
{
    char *slash = strrchr(walk->done, '/');
    if (slash) {
        *slash = '\0';
    }
}

/* Puts a link's target in front of what is left. */
static bool follow(struct walk *walk)
{
    char target[PATH_MAX];
    ssize_t n = readlink(walk->done, target, sizeof target);
    size_t left = strlen(walk->left); /* empty, or begins with a slash */
    if (n <= 0 || (size_t)n + left + 1 > PATH_MAX) {
        return false;
    }
    memmove(walk->left + n, walk->left, left + 1);
    memcpy(walk->left, target, (size_t)n);
    go_up(walk);
    if (target[0] == '/') {
        walk->done[0] = '\0';
    }
    return true;
}

/* One component on. 1: it was a link; 0: there is nothing; -1: something else stands in the way; 2: it is
 * there. */
static int advance(struct walk *walk, size_t length)
{
    struct stat st;
    if (length == 2 && memcmp(walk->left, "..", 2) == 0) {
        go_up(walk);
    } else if ((length != 1 || walk->left[0] != '.') && !append(walk->done, walk->left, length)) {
        return -1;
    }
    memmove(walk->left, walk->left + length, strlen(walk->left + length) + 1);
    if (lstat(*walk->done ? walk->done : "/", &st) < 0) {
        return errno == ENOENT || errno == ENOTDIR ? 0 : -1;
    }
    return S_ISLNK(st.st_mode) ? follow(walk) ? 1 : -1 : 2;
}

static void trim(char *path)
{
    size_t blank = strspn(path, "/");
    memmove(path, path + blank, strlen(path + blank) + 1);
}

/* Walks an absolute path. ABSENT or LINK: where it breaks off stands in `walk->done`, and what was to come in
 * `left`. It is a link's fault as long as the link's own target is walked, not what stood behind the link. */
static enum child_missing walk_path(const char *path, struct walk *walk)
{
    unsigned links = 0;
    size_t behind = SIZE_MAX; /* bytes that stood behind the link whose target is walked */
    if (strlen(path) >= PATH_MAX) {
        return MISSING_UNKNOWN;
    }
    walk->done[0] = '\0';
    memcpy(walk->left, path, strlen(path) + 1);
    trim(walk->left);
    for (size_t length; (length = strcspn(walk->left, "/")) > 0;) {
        size_t rest = strlen(walk->left + length + strspn(walk->left + length, "/"));
        int r = advance(walk, length);
        trim(walk->left);
        if (r == 0) {
            return behind != SIZE_MAX && rest >= behind ? MISSING_LINK : MISSING_ABSENT;
        }
        if (r == 1 && (behind == SIZE_MAX || rest < behind)) {
            behind = rest;
        }
        links += r == 1;
        if (r < 0 || links > LINKS_MAX) {
            return MISSING_UNKNOWN;
        }
    }
    return MISSING_NOTHING;
}

static void put_path(struct child_message *ret, const char *path)
{
    size_t length = strnlen(path, CHILD_PATH_MAX - 1);
    memcpy(ret->path, path, length);
    while (length > 1 && ret->path[length - 1] == '/') {
        length--;
    }
    ret->path[length] = '\0';
}

/* Of a script, its interpreter; of a program, its loader. MISSING_NOTHING: it needs neither. */
static enum child_missing read_needed(const char *path, char ret[PATH_MAX])
{
    char head[HEAD_BYTES];
    struct stat st;
    CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    ssize_t n =
        fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ? -1 : pread(fd, head, HEAD_BYTES - 1, 0);
    if (n < 2) {
        return n < 0 ? MISSING_UNKNOWN : MISSING_NOTHING;
    }
    head[n] = '\0';
    if (memcmp(head, "#!", 2) == 0) {
        const char *from = head + 2 + strspn(head + 2, " \t");
        size_t length =
            strcspn(from, " \t\n"); /* a line that ends as on Windows: as the kernel has it, too */
        memcpy(ret, from, length);
        ret[length] = '\0';
        return MISSING_INTERPRETER;
    }
    elf_header elf;
    if ((size_t)n < sizeof elf || memcmp(head, ELFMAG, SELFMAG) != 0) {
        return MISSING_NOTHING;
    }
    memcpy(&elf, head, sizeof elf);
    for (unsigned i = 0; i < elf.e_phnum && i < PROGRAMS_MAX && elf.e_phentsize == sizeof(elf_program); i++) {
        elf_program program;
        if (pread(fd, &program, sizeof program, (off_t)(elf.e_phoff + i * sizeof program)) !=
            sizeof program) {
            return MISSING_UNKNOWN;
        }
        if (program.p_type == PT_INTERP && program.p_filesz > 1 && program.p_filesz < PATH_MAX) {
            ssize_t length = pread(fd, ret, (size_t)program.p_filesz, (off_t)program.p_offset);
            ret[length > 0 ? length : 0] = '\0';
            return MISSING_LOADER;
        }
    }
    return MISSING_NOTHING;
}

/* Where the kernel begins to look: what is relative, in the working directory. */
static bool make_absolute(const struct jail_plan *plan, const char *path, char ret[PATH_MAX])
{
    ret[0] = '\0';
    for (uint32_t i = 0; path[0] != '/' && i < plan->n_steps; i++) {
        const struct jail_step *step = &plan->steps[i];
        const char *directory =
            step->kind == JAIL_STEP_WORKDIR ? jail_plan_string(plan, step->workdir.path) : "";
        if (*directory && !append(ret, directory + 1, strlen(directory + 1))) {
            return false;
        }
    }
    return append(ret, path + (path[0] == '/'), strlen(path + (path[0] == '/')));
}

/* Fills `ret` and returns true if something is missing that this file, or what it needs, leads to. */
static bool find_from(const struct child *child, const char *path, struct child_message *ret)
{
    struct walk walk;
    char next[PATH_MAX], needed[PATH_MAX];
    enum child_missing what = MISSING_NOTHING;
    for (int i = 0; i < SCRIPTS_MAX && make_absolute(child->plan, path, next); i++) {
        enum child_missing found = walk_path(next, &walk);
        if (found == MISSING_ABSENT || found == MISSING_LINK) {
            size_t left = strlen(walk.left);
            ret->missing = what != MISSING_NOTHING ? what : found;
            if (found == MISSING_ABSENT) {
                put_path(ret, what != MISSING_NOTHING ? next : walk.done);
            } else {
                put_path(ret, left == 0 || append(walk.done, walk.left, left) ? walk.done : next);
            }
            return true;
        }
        what = found == MISSING_NOTHING ? read_needed(walk.done, needed) : MISSING_UNKNOWN;
        if (what != MISSING_LOADER && what != MISSING_INTERPRETER) {
            return false;
        }
        path = needed;
    }
    return false;
}

void missing_find(const struct child *child, const struct jail_step *exec, struct child_message *ret)
{
    const char *path = jail_plan_string(child->plan, exec->exec.path);
    char full[PATH_MAX];
    if (strchr(path, '/')) {
        find_from(child, path, ret);
        return;
    }
    /* A name: of what stands somewhere on the PATH and leads nowhere, the first. */
    const char *from = step_search_path(child->envp);
    while (step_next_on_path(&from, path, full)) {
        struct stat st;
        if (full[0] && lstat(full, &st) == 0 && find_from(child, full, ret)) {
            return;
        }
    }
    ret->missing = MISSING_ON_PATH;
}
