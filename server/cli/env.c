/* `immure env`: virtual environments that runtimes may show to their jobs (`python_environment`). They are
 * made by the interpreter's own venv and pip, or by apt-get, as ordinary programs of the caller. One is built
 * under another name and renamed at the end: what goes wrong leaves nothing under its name. */
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/message/job.h"
#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/cli/command.h"
#include "server/cli/options.h"
#include "server/cli/tables.h"
#include "server/host/interpreter.h"

#define DEFAULT_DIRECTORY  "/var/lib/immure/environments"
#define PACKAGES_MAX_NAMED 256

struct env_options {
    const char *directory, *python, *pip;
    bool debian;
};

#define DIRECTORY_ROW                                                                                        \
    {                                                                                                        \
        "--directory", "DIR", "where they lie; default: " DEFAULT_DIRECTORY, OPTION_TEXT,                    \
            offsetof(struct env_options, directory)                                                          \
    }

static const struct option_row create_rows[] = {
    {"--pip", "FILE", "install what this requirements file names, by the interpreter's pip", OPTION_TEXT,
     offsetof(struct env_options, pip)},
    {"--debian", NULL,
     "install these packages by apt-get, if they are not, and show them with all of Debian's", OPTION_SWITCH,
     offsetof(struct env_options, debian)},
    {"--python", "INTERPRETER", "a path, or a name; default: python3", OPTION_TEXT,
     offsetof(struct env_options, python)},
    DIRECTORY_ROW,
};

static const struct option_row directory_rows[] = {DIRECTORY_ROW};

const struct option_table env_create_table = {
    .command = "env create",
    .examples = "immure env create data --debian python3-pandas python3-matplotlib\n",
    .synopsis = "NAME --pip FILE | NAME --debian PACKAGE... [OPTION...]",
    .about =
        "Makes a virtual environment of that name. Where packages come from, pip's own configuration says, "
        "or apt's.",
    .footer = "Exit code: 0, 1 if it cannot be made (then there is none of that name), 2 for wrong usage.",
    .rows = create_rows,
    .n_rows = ARRAY_SIZE(create_rows),
};

const struct option_table env_list_table = {
    .command = "env list",
    .examples = "immure env list\n",
    .synopsis = "[--directory DIR]",
    .about = "One line for each environment: name, Python's version and path, with tabs between.",
    .footer = "Exit code: 0, 1 if the directory cannot be read, 2 for wrong usage.",
    .rows = directory_rows,
    .n_rows = ARRAY_SIZE(directory_rows),
};

const struct option_table env_remove_table = {
    .command = "env remove",
    .examples = "immure env remove data\n",
    .synopsis = "NAME [--directory DIR]",
    .about = "Removes an environment. A server whose runtime shows it must be told before.",
    .footer = "Exit code: 0, 1 if there is none of that name, 2 for wrong usage.",
    .rows = directory_rows,
    .n_rows = ARRAY_SIZE(directory_rows),
};

/* Scripts begin with the interpreter's path. */
static const char relocate[] =
    "import os, sys\n"
    "old, new = map(os.fsencode, sys.argv[1:3])\n"
    "bin = os.path.join(old, b'bin')\n"
    "paths = [os.path.join(bin, name) for name in os.listdir(bin)] + [os.path.join(old, b'pyvenv.cfg')]\n"
    "for path in paths:\n"
    "    if os.path.isfile(path) and not os.path.islink(path):\n"
    "        with open(path, 'r+b') as file:\n"
    "            text = file.read()\n"
    "            if old in text and b'\\0' not in text:\n"
    "                file.seek(0)\n"
    "                file.write(text.replace(old, new))\n"
    "                file.truncate()\n";

/* An interrupt from the terminal ends the program, not us: something is to be tidied up. What it prints goes
 * to standard error. `program` for the message. */
static int run(const char *program, char *const *argv, struct err *reterr)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t usual;
    pid_t pid;
    int status = -1;
    sigemptyset(&usual);
    sigaddset(&usual, SIGINT);
    signal(SIGINT, SIG_IGN);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    int code = posix_spawnp(&pid, argv[0], &actions, &attributes, argv, environ);
    while (code == 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (code != 0) {
        return err_set(reterr, ERR_HOST, code, NULL, "%s cannot be started: %s", program, strerror(code));
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0
               ? 0
               : err_set(reterr, ERR_HOST, ECANCELED, NULL, "%s failed; what it said stands above", program);
}

static char *word(const char *text)
{
    return (char *)(uintptr_t)text;
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *place)
{
    (void)st, (void)kind, (void)place;
    return remove(path);
}

static int remove_tree(const char *path)
{
    return nftw(path, remove_entry, 32, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) < 0 ? -errno : 0;
}

static int path_of(const char *directory, const char *name, char ret[PATH_MAX], struct err *reterr)
{
    if (!image_name_is_valid(name)) {
        return err_set(reterr, ERR_INVALID, EINVAL, "NAME", "'%.80s' " IMAGE_NAME_RULE, name);
    }
    int n = snprintf(ret, PATH_MAX, "%s/%s", directory, name);
    return n > 0 && n < PATH_MAX - 16 ? 0
                                      : err_errno(reterr, ENAMETOOLONG, "the directory %.100s", directory);
}

static bool is_environment(const char *path)
{
    char marker[PATH_MAX + 16];
    snprintf(marker, sizeof marker, "%s/pyvenv.cfg", path);
    return access(marker, F_OK) == 0;
}

static int make_directories(const char *path, struct err *reterr)
{
    char above[PATH_MAX];
    snprintf(above, sizeof above, "%s/", path);
    for (char *slash = strchr(above + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(above, 0755) < 0 && errno != EEXIST) {
            return err_set(reterr, ERR_HOST, errno, NULL, "%.200s cannot be made: %s", above,
                           strerror(errno));
        }
        *slash = '/';
    }
    return 0;
}

static bool is_installed(const char *package)
{
    struct err ignored = {0};
    char script[] = "test \"$(dpkg-query -W -f '${db:Status-Status}' \"$1\" 2>/dev/null)\" = installed";
    char *argv[] = {word("/bin/sh"), word("-c"), script, word("sh"), word(package), NULL};
    return run("dpkg-query", argv, &ignored) == 0;
}

static int install_debian(char **packages, size_t n, struct err *reterr)
{
    char *argv[PACKAGES_MAX_NAMED + 8] = {word("apt-get"), word("install"), word("-y"),
                                          word("--no-install-recommends"), word("--")};
    size_t used = 5;
    for (size_t i = 0; i < n; i++) {
        if (!is_installed(packages[i])) {
            argv[used++] = packages[i];
        }
    }
    return used == 5 ? 0 : run("apt-get", argv, reterr);
}

static int install_pip(const char *python, const char *made, const char *file, struct err *reterr)
{
    char inside[PATH_MAX + 16];
    snprintf(inside, sizeof inside, "%s/bin/python", made);
    char *argv[] = {word(python),
                    word("-m"),
                    word("pip"),
                    word("--python"),
                    inside,
                    word("install"),
                    word("--no-input"),
                    word("--disable-pip-version-check"),
                    word("-r"),
                    word(file),
                    NULL};
    return run("pip", argv, reterr);
}

/* At `made`, an empty directory; it is to lie at `final`. */
static int build(const struct env_options *options, const char *python, char **packages, size_t n_packages,
                 char *made, char *final, struct err *reterr)
{
    char inside[PATH_MAX + 16];
    snprintf(inside, sizeof inside, "%s/bin/python", made);
    char *venv[] = {word(python), word("-m"),
                    word("venv"), word("--without-pip"),
                    made,         options->debian ? word("--system-site-packages") : NULL,
                    NULL};
    char *move[] = {inside, word("-I"), word("-c"), word(relocate), made, final, NULL};
    int r = options->debian ? install_debian(packages, n_packages, reterr) : 0;
    r = r < 0 ? r : run("venv", venv, reterr);
    r = r < 0 || options->debian ? r : install_pip(python, made, options->pip, reterr);
    r = r < 0 ? r : run("the new interpreter", move, reterr);
    return r < 0 || rename(made, final) == 0
               ? r
               : err_set(reterr, ERR_HOST, errno, NULL, "%.200s cannot be made: %s", final, strerror(errno));
}

static int create(const struct env_options *options, char **arguments, size_t n, struct err *reterr)
{
    CLEANUP(runtime_config_forget)
    struct runtime_config python = {.interpreter = strdup(options->python ? options->python : "python3")};
    char final[PATH_MAX], made[PATH_MAX];
    if (!python.interpreter) {
        return err_errno(reterr, ENOMEM, "making an environment");
    }
    int r = path_of(options->directory, arguments[0], final, reterr);
    r = r < 0 ? r : interpreter_locate(&python, reterr);
    if (r == 0 && options->pip && access(options->pip, R_OK) < 0) {
        r = err_set(reterr, ERR_HOST, errno, "--pip", "%.200s: %s", options->pip, strerror(errno));
    }
    if (r == 0 && access(final, F_OK) == 0) {
        r = err_set(reterr, ERR_HOST, EEXIST, NULL,
                    "%.200s is there already; `immure env remove` takes it away", final);
    }
    umask(022); /* interpreters are asked as nobody, and jobs are others, too */
    r = r < 0 ? r : make_directories(options->directory, reterr);
    if (r < 0) {
        return r;
    }
    snprintf(made, sizeof made, "%.*s/.making-XXXXXX", PATH_MAX - 32, options->directory);
    if (!mkdtemp(made) || chmod(made, 0755) < 0) {
        return err_set(reterr, ERR_HOST, errno, NULL, "%.200s cannot be made: %s", made, strerror(errno));
    }
    r = build(options, python.interpreter, arguments + 1, n - 1, made, final, reterr);
    if (r < 0) {
        remove_tree(made);
        return r;
    }
    printf("%s: say python_environment: \"%s\" in a runtime\n", arguments[0], final);
    return 0;
}

static void put_environment(const char *name, const char *path)
{
    char marker[PATH_MAX + 16], line[256], version[64] = "-";
    snprintf(marker, sizeof marker, "%s/pyvenv.cfg", path);
    CLEANUP(file_closep) FILE *file = fopen(marker, "re");
    while (file && fgets(line, sizeof line, file)) {
        sscanf(line, "version = %63[0-9A-Za-z.+]", version);
    }
    printf("%s\t%s\t%s\n", name, version, path);
}

static int list(const struct env_options *options, char **arguments, size_t n, struct err *reterr)
{
    (void)arguments, (void)n;
    struct dirent **entries;
    int count = scandir(options->directory, &entries, NULL, alphasort);
    if (count < 0 && errno != ENOENT) {
        return err_set(reterr, ERR_HOST, errno, NULL, "%.200s cannot be read: %s", options->directory,
                       strerror(errno));
    }
    for (int i = 0; i < count; i++) {
        char path[PATH_MAX];
        struct err ignored = {0};
        if (path_of(options->directory, entries[i]->d_name, path, &ignored) == 0 && is_environment(path)) {
            put_environment(entries[i]->d_name, path);
        }
        free(entries[i]);
    }
    if (count >= 0) {
        free(entries);
    }
    return 0;
}

static int remove_environment(const struct env_options *options, char **arguments, size_t n,
                              struct err *reterr)
{
    (void)n;
    char path[PATH_MAX], going[PATH_MAX];
    int r = path_of(options->directory, arguments[0], path, reterr);
    if (r < 0) {
        return r;
    }
    if (!is_environment(path)) {
        return err_set(reterr, ERR_HOST, ENOENT, NULL, "%.200s is no environment", path);
    }
    snprintf(going, sizeof going, "%.*s/.going-XXXXXX", PATH_MAX - 32, options->directory);
    if (!mkdtemp(going)) {
        return err_set(reterr, ERR_HOST, errno, NULL, "%.200s cannot be removed: %s", path, strerror(errno));
    }
    /* Over the empty directory: from then on there is none of that name. */
    r = rename(path, going) < 0 ? -errno : 0;
    int rest = remove_tree(going);
    r = r < 0 ? r : rest;
    if (r < 0) {
        return err_set(reterr, ERR_HOST, -r, NULL, "%.200s cannot be removed: %s", path, strerror(-r));
    }
    return 0;
}

static const struct {
    const char *name;
    const struct option_table *table;
    int n_least, n_most;
    const char *usage;
    int (*run)(const struct env_options *options, char **arguments, size_t n, struct err *reterr);
} actions[] = {
    {"create", &env_create_table, 1, PACKAGES_MAX_NAMED, "a name, and --pip FILE or --debian PACKAGE...",
     create},
    {"list", &env_list_table, 0, 0, "no arguments", list},
    {"remove", &env_remove_table, 1, 1, "the name of an environment", remove_environment},
};

static bool is_right(size_t i, const struct env_options *options, int n)
{
    bool creates = actions[i].run == create;
    bool right = !creates || (options->debian ? !options->pip && n >= 2 : options->pip && n == 1);
    return right && n >= actions[i].n_least && n <= actions[i].n_most;
}

static int run_action(size_t i, int argc, char **argv)
{
    struct env_options options = {0};
    struct err err = {0};
    int n;
    int r = options_parse(actions[i].table, argc, argv, &options, &n, &err);
    if (r == OPTIONS_HELP) {
        options_print_help(actions[i].table, stdout);
        return EXIT_CODE_OK;
    }
    options.directory = options.directory ? options.directory : DEFAULT_DIRECTORY;
    if (r == 0 && !is_right(i, &options, n)) {
        r = err_set(&err, ERR_INVALID, EINVAL, NULL, "takes %s", actions[i].usage);
    }
    if (r == 0 && options.directory[0] != '/') {
        r = err_set(&err, ERR_INVALID, EINVAL, "--directory", "must be an absolute path");
    }
    if (r < 0) {
        return command_fail(actions[i].table->command, &err, EXIT_CODE_USAGE);
    }
    r = actions[i].run(&options, argv + 1, (size_t)n, &err);
    return r < 0 ? command_fail(actions[i].table->command, &err, EXIT_CODE_FAILED) : EXIT_CODE_OK;
}

int cmd_env(int argc, char **argv)
{
    for (size_t i = 0; argc >= 2 && i < ARRAY_SIZE(actions); i++) {
        if (strcmp(argv[1], actions[i].name) == 0) {
            return run_action(i, argc - 1, argv + 1);
        }
    }
    return command_usage(argc, argv,
                         "usage: immure env create NAME --pip FILE | NAME --debian PACKAGE... [OPTION...]\n"
                         "       immure env list [--directory DIR]\n"
                         "       immure env remove NAME [--directory DIR]\n"
                         "\n"
                         "`immure env create --help` tells more.\n");
}
