/* Decides whether a job's process may run its program in the interpreter that the template has started. Runs
 * in a job's process, confined already.
 *
 * What must hold: wherever a fresh interpreter would have come out of its start differently, the answer is
 * no. A wrong "no" costs milliseconds, a wrong "yes" a program that behaves unlike itself. */
#include "jail/runtime/python/match.h"

#include <dirent.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/runtime/python/words.h"
#include "jail/zygote.h"

/* Variables that are read while an interpreter starts, or by the libraries below it. */
static const struct {
    const char *name;
    bool is_prefix;
    const char *reader;
} start_variables[] = {
    {"PYTHON", true, "the interpreter's own"},
    {"HOME", false, "site: the user's own packages"},
    {"LANG", false, "encoding of files and streams"},
    {"LC_", true, "encoding of files and streams"},
    {"LOCPATH", false, "the C library: where locales lie"},
    {"LD_", true, "the dynamic linker"},
    {"GLIBC_TUNABLES", false, "the C library"},
    {"MALLOC_", true, "the C library"},
    {"OPENSSL_", true, "libcrypto, which hashlib loads"},
    {"BLIS_", true, "what numpy computes with: how many threads"},
    {"MKL_", true, "the same"},
    {"NUMEXPR_", true, "the same"},
    {"OMP_", true, "the same"},
    {"OPENBLAS_", true, "the same"},
    {"NPY_", true, "numpy"},
    {"MPL", true, "matplotlib: where it draws, and its own files"},
};

/* The end of a ZIP archive: its last record is at least this long, and a comment of up to 65535 bytes may
 * follow. */
#define ZIP_END_BYTES  22
#define ZIP_TAIL_BYTES (ZIP_END_BYTES + UINT16_MAX)
#define ZIP_END_MAGIC  "PK\005\006"

static bool read_at_start(const char *variable)
{
    for (size_t i = 0; i < ARRAY_SIZE(start_variables); i++) {
        size_t length = strlen(start_variables[i].name);
        if (strncmp(variable, start_variables[i].name, length) == 0 &&
            (start_variables[i].is_prefix || variable[length] == '=')) {
            return true;
        }
    }
    return false;
}

/* The value of a variable; NULL where there is none. */
static const char *value_of(char *const *environment, const char *name)
{
    size_t length = strlen(name);
    for (; *environment; environment++) {
        if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=') {
            return *environment + length + 1;
        }
    }
    return NULL;
}

static bool contains(char *const *environment, const char *variable)
{
    for (; *environment; environment++) {
        if (strcmp(*environment, variable) == 0) {
            return true;
        }
    }
    return false;
}

static bool equal(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* Every variable of `a` that is read at the start is one of `b`, with the same value. */
static bool start_variables_in(char *const *a, char *const *b)
{
    for (; *a; a++) {
        if (read_at_start(*a) && !contains(b, *a)) {
            return false;
        }
    }
    return true;
}

static bool match_environment(char *const *before, char *const *now, struct script *ret)
{
    size_t i = 0;
    while (before[i] && now[i] && strcmp(before[i], now[i]) == 0) {
        i++;
    }
    ret->same_environment = !before[i] && !now[i];
    ret->same_timezone = ret->same_environment || equal(value_of(before, "TZ"), value_of(now, "TZ"));
    return ret->same_environment || (start_variables_in(before, now) && start_variables_in(now, before));
}

/* The command line begins as the template's; then comes a script. A relative path would be made absolute. */
static bool match_argv(const struct python *python, const struct zygote_run *run, struct script *ret)
{
    if (run->argc <= python->argc) {
        return false;
    }
    for (size_t i = 0; i < python->argc; i++) {
        if (strcmp(run->argv[i], python->argv[i]) != 0) {
            return false;
        }
    }
    ret->argv = run->argv + python->argc;
    ret->path = ret->argv[0];
    return ret->path[0] == '/';
}

/* The streams were made for pipes. */
static bool match_stdio(void)
{
    for (int fd = 0; fd < 3; fd++) {
        struct stat status;
        if (fstat(fd, &status) < 0 || !S_ISFIFO(status.st_mode)) {
            return false;
        }
    }
    return true;
}

/* Python also takes directories, ZIP archives and compiled files. */
static bool is_plain_source(const struct python *python, int fd, size_t size)
{
    unsigned char tail[ZIP_TAIL_BYTES], head[sizeof python->magic];
    size_t wanted = size < sizeof tail ? size : sizeof tail;
    ssize_t n = pread(fd, tail, wanted, (off_t)(size - wanted));
    if (n != (ssize_t)wanted || memmem(tail, wanted, ZIP_END_MAGIC, sizeof ZIP_END_MAGIC - 1)) {
        return false;
    }
    return pread(fd, head, sizeof head, 0) != sizeof head || memcmp(head, python->magic, sizeof head) != 0;
}

static bool open_script(const struct python *python, struct script *ret)
{
    const char *end = strrchr(ret->path, '.');
    struct stat status;
    CLEANUP(file_closep) FILE *file = NULL;
    if ((end && strcmp(end, ".pyc") == 0) || lstat(ret->path, &status) < 0 || !S_ISREG(status.st_mode) ||
        !(file = fopen(ret->path, "rbe")) || !is_plain_source(python, fileno(file), (size_t)status.st_size)) {
        return false;
    }
    ret->directory = realpath(ret->path, NULL);
    if (!ret->directory) {
        return false;
    }
    char *slash = strrchr(ret->directory, '/');
    slash[slash == ret->directory] = '\0';
    ret->file = TAKE_PTR(file);
    return true;
}

static int compare_names(const void *key, const void *element)
{
    return strcmp(key, *(char *const *)element);
}

/* A file or directory here could be what `import NAME` finds instead of a module that is imported already:
 * name, name.py, name.pyc, name.cpython-311-x86_64-linux-gnu.so. */
static bool directory_shadows(const struct python *python, const char *path)
{
    CLEANUP(dir_closep) DIR *dir = opendir(path);
    if (!dir) {
        struct stat status;
        return stat(path, &status) == 0; /* an archive, or something that we may not read */
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        entry->d_name[strcspn(entry->d_name, ".")] = '\0';
        if (bsearch(entry->d_name, python->module_names, python->n_module_names, sizeof *python->module_names,
                    compare_names)) {
            return true;
        }
    }
    return false;
}

/* The directories that come before the standard library. */
static bool path_shadows(const struct python *python, const struct script *script)
{
    if (!python->safe_path && directory_shadows(python, script->directory)) {
        return true;
    }
    const char *rest = value_of(python->environment, "PYTHONPATH");
    bool more = rest && *rest;
    while (more) {
        size_t length = strcspn(rest, ":");
        CLEANUP(freep) char *path = strndup(rest, length);
        if (!path || path[0] != '/' || directory_shadows(python, path)) {
            return true;
        }
        more = rest[length] == ':';
        rest += length + 1;
    }
    return false;
}

bool match_run(const struct python *python, const struct zygote_run *run, struct script *ret)
{
    struct script script = {0};
    if (!match_argv(python, run, &script) || !match_environment(python->environment, run->envp, &script) ||
        !match_stdio() || !open_script(python, &script)) {
        return false;
    }
    if (path_shadows(python, &script)) {
        fclose(script.file);
        return false;
    }
    *ret = script;
    return true;
}
