/* Finds an interpreter on the host and asks it what it needs there. Runs in the warden, when the
 * configuration is read, and on the command line.
 *
 * Every program needs its own file, the links that lead to it, its loader and the directory of that, where
 * the C library lies. Python and Node tell the rest. */
#include "server/host/interpreter.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/policy/policy_file.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "policy/policy.h"
#include "server/host/ask.h"

#define NEEDS_MAX 64u
#define LINKS_MAX 8u

static const char *const directories[] = {"/usr/bin", "/usr/local/bin", "/bin"};

/* 0 or -errno. */
static int check_program(const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0 || (S_ISREG(st.st_mode) && access(path, X_OK) < 0)) {
        return -errno;
    }
    return S_ISREG(st.st_mode) ? 0 : -EACCES;
}

static const char *file_name(const char *path)
{
    return strrchr(path, '/') + 1;
}

/* `path` with the links of its directory resolved, not that of the file. */
static bool resolve_directory(const char *path, char ret[PATH_MAX])
{
    char directory[PATH_MAX], real[PATH_MAX];
    size_t length = (size_t)(file_name(path) - path);
    snprintf(directory, sizeof directory, "%.*s", (int)length, path);
    if (!realpath(directory, real)) {
        return false;
    }
    int n = snprintf(ret, PATH_MAX, "%s/%s", strcmp(real, "/") == 0 ? "" : real, file_name(path));
    return n > 0 && n < PATH_MAX;
}

/* The directory of the virtual environment that `path` is an interpreter of; false: of none. */
static bool find_environment(const char *path, char ret[PATH_MAX])
{
    snprintf(ret, PATH_MAX, "%s", path);
    for (int i = 0; i < 2; i++) {
        char marker[PATH_MAX + 16];
        *strrchr(ret, '/') = '\0';
        snprintf(marker, sizeof marker, "%s/pyvenv.cfg", ret);
        if (ret[0] == '\0' || access(marker, F_OK) == 0) {
            return ret[0] != '\0';
        }
    }
    return false;
}

/* 0: it is there; -ENOENT: it is not. Whatever else keeps us from looking might hide it from us. */
static int search_directory(const char *directory, size_t length, const char *name, char ret[PATH_MAX])
{
    int n = snprintf(ret, PATH_MAX, "%.*s/%s", (int)length, directory, name);
    if (directory[0] != '/' || n < 0 || n >= PATH_MAX) {
        return -ENOENT;
    }
    int r = check_program(ret);
    return r == -ENOTDIR || r == -EACCES ? -ENOENT : r;
}

static int search(const char *name, char ret[PATH_MAX])
{
    int r = -ENOENT;
    for (size_t i = 0; r == -ENOENT && i < ARRAY_SIZE(directories); i++) {
        r = search_directory(directories[i], strlen(directories[i]), name, ret);
    }
    for (const char *rest = getenv("PATH"); r == -ENOENT && rest && *rest;) {
        size_t length = strcspn(rest, ":");
        r = search_directory(rest, length, name, ret);
        rest += length + (rest[length] == ':');
    }
    return r;
}

static int take_path(struct runtime_config *runtime, const char *path, struct err *reterr)
{
    char *copy = strdup(path);
    if (!copy) {
        return err_errno(reterr, ENOMEM, "looking for an interpreter");
    }
    free(runtime->wanted);
    runtime->wanted = runtime->interpreter;
    runtime->interpreter = copy;
    return 0;
}

static bool has_environment(const struct runtime_config *runtime)
{
    return runtime->python_environment && runtime->python_environment[0];
}

static bool is_debians(const struct runtime_config *runtime)
{
    return strcmp(runtime->python_environment, PYTHON_ENVIRONMENT_DEBIAN) == 0 ||
           strcmp(runtime->python_environment, PYTHON_ENVIRONMENT_DISTRIBUTION) == 0;
}

/* A name is that of a file in its bin; a path must lead there, or to the same interpreter. */
static int locate_in_environment(struct runtime_config *runtime, struct err *reterr)
{
    const char *environment = runtime->python_environment, *named = runtime->interpreter;
    char path[2 * PATH_MAX], resolved[PATH_MAX], real[PATH_MAX], other[PATH_MAX];
    snprintf(path, sizeof path, "%.*s/pyvenv.cfg", PATH_MAX - 16, environment);
    if (access(path, F_OK) < 0) {
        return err_set(reterr, ERR_HOST, errno, NULL,
                       "%.120s is no virtual environment that can be read (it has no pyvenv.cfg); make one: "
                       "`immure env create`",
                       environment);
    }
    snprintf(path, sizeof path, "%.*s/bin/%.255s", PATH_MAX - 300, environment,
             named[0] == '/' ? "python" : named);
    int r = check_program(path);
    if (r < 0 || !resolve_directory(path, resolved) || !realpath(path, real)) {
        return err_set(reterr, ERR_HOST, ENOENT, NULL, "%.160s is not there, or cannot be executed", path);
    }
    if (named[0] == '/' && (!realpath(named, other) || strcmp(real, other) != 0)) {
        return err_set(reterr, ERR_HOST, EINVAL, NULL,
                       "the interpreter of %.90s is %.90s, and not %.90s; name it \"python3\"", environment,
                       real, named);
    }
    return take_path(runtime, resolved, reterr);
}

static int look_for(struct runtime_config *runtime, struct err *reterr)
{
    char path[PATH_MAX], real[PATH_MAX], environment[PATH_MAX];
    const char *named = runtime->interpreter;
    int r = named[0] == '/' ? 0 : search(named, path);
    if (r == -ENOENT) {
        return err_set(reterr, ERR_HOST, ENOENT, NULL,
                       "there is no %.100s in /usr/bin, /usr/local/bin, /bin or along PATH", named);
    }
    if (r < 0) {
        return err_errno(reterr, -r, "looking for %.100s", named);
    }
    if (named[0] == '/' && (r = check_program(named)) < 0) {
        return err_set(reterr, ERR_HOST, -r, NULL, "%.120s %s", named,
                       r == -ENOENT ? "is not there" : "cannot be executed");
    }
    if (named[0] == '/') {
        return resolve_directory(named, path) ? take_path(runtime, path, reterr) : 0;
    }
    /* An environment's interpreter is a link, and what it is started as tells it of the environment. */
    bool is_plain = !find_environment(path, environment) && realpath(path, real);
    return take_path(runtime, is_plain ? real : path, reterr);
}

/* ---- What it needs ---- */

static bool is_below(const char *path, const char *above)
{
    size_t length = strlen(above);
    return strncmp(path, above, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

static int add_need(struct runtime_config *runtime, const char *path, const char *target)
{
    for (size_t i = 0; i < runtime->n_needs; i++) {
        if (is_below(path, runtime->needs[i].path)) {
            return 0;
        }
    }
    struct interpreter_need *needs =
        reallocarray(runtime->needs, runtime->n_needs + 1, sizeof *runtime->needs);
    if (!needs) {
        return -ENOMEM;
    }
    runtime->needs = needs;
    struct interpreter_need need = {.path = strdup(path), .target = target ? strdup(target) : NULL};
    needs[runtime->n_needs++] = need;
    return !need.path || (target && !need.target) ? -ENOMEM : runtime->n_needs > NEEDS_MAX ? -E2BIG : 0;
}

/* The file, under every name that leads to it. */
static int add_file(struct runtime_config *runtime, const char *first)
{
    char path[PATH_MAX], target[PATH_MAX], next[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s", first);
    for (unsigned i = 0; i < LINKS_MAX; i++) {
        int r = add_need(runtime, path, NULL);
        ssize_t n = readlink(path, target, sizeof target - 1);
        if (r < 0 || n <= 0) {
            return r < 0 || n == 0 || errno == EINVAL ? r : -errno;
        }
        target[n] = '\0';
        int length = (int)(file_name(path) - path);
        snprintf(next, sizeof next, "%.*s%s", target[0] == '/' ? 0 : length, path, target);
        if (strlen(next) >= PATH_MAX || !resolve_directory(next, path)) {
            return -ELOOP;
        }
    }
    return -ELOOP;
}

/* 1: an ELF file of 64 bits; 0: another file. */
static int read_elf(const char *program, Elf64_Ehdr *ret, int *ret_fd)
{
    CLEANUP(fd_closep) int fd = open(program, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : pread(fd, ret, sizeof *ret, 0);
    if (n != (ssize_t)sizeof *ret || memcmp(ret->e_ident, ELFMAG, SELFMAG) != 0 ||
        ret->e_ident[EI_CLASS] != ELFCLASS64) {
        return n < 0 ? -errno : 0;
    }
    *ret_fd = TAKE_FD(fd);
    return 1;
}

/* The loader that an ELF file names; "": none. -ENOEXEC: the file is for another machine than this program,
 * and whatever emulates that here is in no jail. */
static int read_loader(const char *program, char ret[PATH_MAX])
{
    Elf64_Ehdr header, own;
    CLEANUP(fd_closep) int fd = -1;
    CLEANUP(fd_closep) int own_fd = -1;
    ret[0] = '\0';
    int r = read_elf(program, &header, &fd);
    if (r <= 0) {
        return r;
    }
    if (read_elf("/proc/self/exe", &own, &own_fd) == 1 && own.e_machine != header.e_machine) {
        return -ENOEXEC;
    }
    ssize_t n;
    for (unsigned i = 0; i < header.e_phnum; i++) {
        Elf64_Phdr segment;
        off_t at = (off_t)(header.e_phoff + i * sizeof segment);
        n = pread(fd, &segment, sizeof segment, at);
        if (n != (ssize_t)sizeof segment) {
            return n < 0 ? -errno : 0;
        }
        if (segment.p_type == PT_INTERP && segment.p_filesz > 1 && segment.p_filesz <= PATH_MAX) {
            n = pread(fd, ret, segment.p_filesz, (off_t)segment.p_offset);
            bool good = n == (ssize_t)segment.p_filesz && ret[0] == '/' && ret[n - 1] == '\0';
            ret[0] = good ? ret[0] : '\0';
            return n < 0 ? -errno : 0;
        }
    }
    return 0;
}

/* The loader, under the name that programs carry, and the directory in which it lies with the C library;
 * `ret` is that directory, "" where there is none. */
static int add_loader(struct runtime_config *runtime, char ret[PATH_MAX])
{
    char loader[PATH_MAX], real[PATH_MAX];
    ret[0] = '\0';
    int r = read_loader(runtime->interpreter, loader);
    if (r < 0 || loader[0] == '\0') {
        return r;
    }
    if (!realpath(loader, real)) {
        return -errno;
    }
    snprintf(ret, PATH_MAX, "%.*s", (int)(file_name(real) - real - 1), real);
    r = add_need(runtime, ret, NULL);
    return r < 0 ? r : add_need(runtime, loader, real);
}

/* ---- What it says ---- */

enum language { LANGUAGE_OTHER, LANGUAGE_PYTHON, LANGUAGE_NODE, LANGUAGE_BASH };

static enum language language_of(const char *interpreter)
{
    static const char *const names[] = {
        [LANGUAGE_PYTHON] = "python", [LANGUAGE_NODE] = "node", [LANGUAGE_BASH] = "bash"};
    for (enum language i = LANGUAGE_PYTHON; i <= LANGUAGE_BASH; i++) {
        if (strncmp(file_name(interpreter), names[i], strlen(names[i])) == 0) {
            return i;
        }
    }
    return LANGUAGE_OTHER;
}

static bool is_script(const char *path)
{
    char head[2] = "";
    CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && pread(fd, head, sizeof head, 0) == sizeof head && memcmp(head, "#!", sizeof head) == 0;
}

/* "executable /opt/python/bin/python3", behind the version. */
static int read_executable(char *answer, char ret[PATH_MAX])
{
    static const char word[] = "\nexecutable ";
    const char *at = strstr(answer, word);
    at = at ? at + strlen(word) : "";
    int n = snprintf(ret, PATH_MAX, "%.*s", (int)strcspn(at, "\n"), at);
    int r = ret[0] == '/' && n < PATH_MAX ? check_program(ret) : -ENOENT;
    return r == 0 && is_script(ret) ? -ELOOP : r;
}

/* A script in the place of an interpreter, as those of pyenv, starts one that jobs are to have. */
static int follow_script(struct runtime_config *runtime, struct err *reterr)
{
    char path[PATH_MAX];
    struct err err = {0};
    CLEANUP(buf_free) struct buf answer = BUF_INIT;
    enum language language = language_of(runtime->interpreter);
    if (!(language == LANGUAGE_PYTHON || language == LANGUAGE_NODE) || !is_script(runtime->interpreter)) {
        return 0;
    }
    int r = language == LANGUAGE_PYTHON ? ask_python(runtime->interpreter, "", &answer, &err)
                                        : ask_node(runtime->interpreter, &answer, &err);
    r = r < 0 ? r : read_executable(answer.data, path);
    char *copy = r < 0 ? NULL : strdup(path);
    if (!copy) {
        return err_set(reterr, ERR_HOST, r < 0 ? -r : ENOMEM, NULL, "%.120s cannot be used: %s",
                       runtime->interpreter,
                       err.text[0] ? err.text : "it is a script, and does not say which program it starts");
    }
    if (runtime->wanted) {
        free(runtime->interpreter);
    } else {
        runtime->wanted = runtime->interpreter;
    }
    runtime->interpreter = copy;
    return 0;
}

int interpreter_locate(struct runtime_config *runtime, struct err *reterr)
{
    if (has_environment(runtime) && !is_debians(runtime)) {
        return locate_in_environment(runtime, reterr);
    }
    int r = look_for(runtime, reterr);
    r = r < 0 ? r : follow_script(runtime, reterr);
    return r < 0 || !has_environment(runtime) || strncmp(runtime->interpreter, "/usr/bin/python3", 16) == 0
               ? r
               : err_set(reterr, ERR_HOST, EINVAL, NULL,
                         "Debian's packages are for Debian's /usr/bin/python3, and not for %.120s",
                         runtime->interpreter);
}

static int take_text(char **to, const char *value)
{
    free(*to);
    *to = strdup(value);
    return *to ? 0 : -ENOMEM;
}

static int add_package(struct runtime_config *runtime, const char *value)
{
    char **packages = reallocarray(runtime->packages, runtime->n_packages + 1, sizeof *packages);
    if (!packages) {
        return -ENOMEM;
    }
    runtime->packages = packages;
    packages[runtime->n_packages] = strdup(value);
    return packages[runtime->n_packages] ? (runtime->n_packages++, 0) : -ENOMEM;
}

static int add_link(struct runtime_config *runtime, char *value)
{
    char *target = strchr(value, ' ');
    if (!target) {
        return 0;
    }
    *target++ = '\0';
    return target[0] == '/' ? add_need(runtime, value, target) : 0;
}

/* Lines of a word and what it is: "version 3.11.2", "need /usr/lib/python3.11", "startup /…/immure.pth". */
static int take_answer(struct runtime_config *runtime, char *answer, struct err *reterr)
{
    bool lists_packages = runtime->n_packages == 0;
    int r = 0;
    char *rest = NULL;
    for (char *line = strtok_r(answer, "\n", &rest); line && r == 0; line = strtok_r(NULL, "\n", &rest)) {
        char *value = strchr(line, ' ');
        if (!value) {
            continue;
        }
        *value++ = '\0';
        if (strcmp(line, "version") == 0 && runtime->version[0] == '\0') {
            r = take_text(&runtime->version, value);
        } else if (strcmp(line, "startup") == 0) {
            r = take_text(&runtime->startup, value);
        } else if (strcmp(line, "need") == 0 && value[0] == '/') {
            r = add_need(runtime, value, NULL);
        } else if (strcmp(line, "link") == 0 && value[0] == '/') {
            r = add_link(runtime, value);
        } else if (strcmp(line, "package") == 0 && lists_packages && runtime->n_packages < PACKAGES_MAX) {
            r = add_package(runtime, value);
        } else if (strcmp(line, "refuse") == 0) {
            r = err_set(reterr, ERR_HOST, ENOEXEC, NULL, "%.200s", value);
        }
    }
    return r;
}

/* "/usr/bin/python3.11" has its library in /usr/lib/python3.11: nobody need be asked. */
static bool guess_library(const char *interpreter, char ret[PATH_MAX])
{
    char landmark[PATH_MAX + 8];
    if (strncmp(interpreter, "/usr/bin/python3.", strlen("/usr/bin/python3.")) != 0) {
        return false;
    }
    snprintf(ret, PATH_MAX, "/usr/lib/%s", file_name(interpreter));
    snprintf(landmark, sizeof landmark, "%s/os.py", ret);
    return access(landmark, F_OK) == 0;
}

static int add_answers(struct runtime_config *runtime, const char *libraries, bool ask, struct err *reterr)
{
    char guess[PATH_MAX];
    CLEANUP(buf_free) struct buf answer = BUF_INIT;
    int r = 0;
    switch (language_of(runtime->interpreter)) {
    case LANGUAGE_PYTHON:
        if (!ask && guess_library(runtime->interpreter, guess)) {
            return add_need(runtime, guess, NULL);
        }
        r = ask_python(runtime->interpreter, libraries, &answer, reterr);
        break;
    case LANGUAGE_NODE:
        /* Only Debian's has more than its file. */
        if (!ask && is_below(runtime->interpreter, "/usr/bin") && access("/usr/share/nodejs", F_OK) < 0) {
            return 0;
        }
        r = ask_node(runtime->interpreter, &answer, reterr);
        break;
    case LANGUAGE_BASH:
        r = ask ? ask_bash(runtime->interpreter, &answer, reterr) : 0;
        break;
    case LANGUAGE_OTHER:
        break;
    }
    return r < 0 || !answer.data ? r : take_answer(runtime, answer.data, reterr);
}

static int add_packages(struct runtime_config *runtime, const char *libraries, struct err *reterr)
{
    CLEANUP(buf_free) struct buf answer = BUF_INIT;
    const char *place = is_debians(runtime) ? PYTHON_ENVIRONMENT_DISTRIBUTION : runtime->python_environment;
    int r = ask_packages(runtime->interpreter, libraries, place, runtime->preload, runtime->n_preload,
                         &answer, reterr);
    return r < 0 ? r : take_answer(runtime, answer.data, reterr);
}

/* What tells the file from another of the same name, or a newer one. */
static void identify(struct runtime_config *runtime)
{
    struct stat st;
    if (stat(runtime->interpreter, &st) == 0) {
        runtime->file[0] = (uint64_t)st.st_dev;
        runtime->file[1] = (uint64_t)st.st_ino;
        runtime->file[2] = (uint64_t)st.st_ctim.tv_sec;
        runtime->file[3] = (uint64_t)st.st_ctim.tv_nsec;
    }
}

int interpreter_examine(struct runtime_config *runtime, bool ask, struct err *reterr)
{
    char libraries[PATH_MAX], environment[PATH_MAX];
    struct err err = {0};
    identify(runtime);
    if (!runtime->version && take_text(&runtime->version, "") < 0) {
        return err_errno(reterr, ENOMEM, "looking at an interpreter");
    }
    int r = add_loader(runtime, libraries);
    r = r < 0 || !find_environment(runtime->interpreter, environment) ? r
                                                                      : add_need(runtime, environment, NULL);
    r = r < 0 ? r : add_file(runtime, runtime->interpreter);
    r = r < 0 ? r : add_answers(runtime, libraries, ask, &err);
    r = r < 0 || !has_environment(runtime) ? r : add_packages(runtime, libraries, &err);
    if (r < 0) {
        return err_set(reterr, r == -ENOMEM ? ERR_INTERNAL : ERR_HOST, -r, NULL, "%.120s cannot be used: %s",
                       runtime->interpreter, err.text[0] ? err.text : strerror(-r));
    }
    return 0;
}

static const char *text_or_none(const char *text)
{
    return text ? text : "";
}

static bool have_the_same_packages(const struct runtime_config *a, const struct runtime_config *b)
{
    bool same = a->n_preload == b->n_preload &&
                strcmp(text_or_none(a->python_environment), text_or_none(b->python_environment)) == 0;
    for (size_t i = 0; same && i < a->n_preload; i++) {
        same = strcmp(a->preload[i], b->preload[i]) == 0;
    }
    return same;
}

bool interpreter_remember(struct runtime_config *runtime, const struct runtime_config *before)
{
    identify(runtime);
    if (!before->n_needs || !have_the_same_packages(runtime, before) ||
        strcmp(runtime->interpreter, before->interpreter) != 0 ||
        memcmp(runtime->file, before->file, sizeof runtime->file) != 0) {
        return false;
    }
    int r = before->startup ? take_text(&runtime->startup, before->startup) : 0;
    if (r == 0 && runtime->version[0] == '\0') {
        r = take_text(&runtime->version, before->version);
    }
    for (size_t i = 0; r == 0 && i < before->n_needs; i++) {
        r = add_need(runtime, before->needs[i].path, before->needs[i].target);
    }
    bool lists_packages = runtime->n_packages == 0;
    for (size_t i = 0; r == 0 && lists_packages && i < before->n_packages; i++) {
        r = add_package(runtime, before->packages[i]);
    }
    return r == 0;
}

void interpreter_show(struct policy *policy, struct runtime_config *ret)
{
    const struct policy_spec *spec = policy_spec(policy);
    struct err err = {0};
    *ret = (struct runtime_config){0};
    if (spec->interpreter[0] && !spec->image[0] && (ret->interpreter = strdup(spec->interpreter)) &&
        interpreter_locate(ret, &err) == 0 && interpreter_examine(ret, false, &err) == 0) {
        policy_set_interpreter(policy, ret);
    }
}
