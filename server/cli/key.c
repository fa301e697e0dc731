/* `immure key`: the file of keys that `key_file` of the configuration names. A running server reads it by
 * itself. The file is replaced whole, so that nobody ever reads half of it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/format/protofile.h"
#include "config/server/key_file.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "server/cli/command.h"
#include "server/cli/options.h"
#include "server/cli/tables.h"

struct key_options {
    const char *file, *team, *expires;
    struct option_list policies, runtimes;
    uint64_t max_concurrent_jobs, max_jobs_per_minute;
    struct job_limits max;
    bool approver;
};

#define FILE_ROW                                                                                             \
    {                                                                                                        \
        "--file", "FILE", "the file that `key_file` of the configuration names", OPTION_TEXT,                \
            offsetof(struct key_options, file)                                                               \
    }

static const struct option_row add_rows[] = {
    FILE_ROW,
    {"--team", "TEAM", "whose key it is; the configuration turns teams on", OPTION_TEXT,
     offsetof(struct key_options, team)},
    {"--policy", "NAME", "a policy that it may name; may be given again, * for all", OPTION_LIST,
     offsetof(struct key_options, policies)},
    {"--runtime", "NAME", "a runtime that it may use; may be given again; none: all", OPTION_LIST,
     offsetof(struct key_options, runtimes)},
    {"--max-concurrent-jobs", "N", "its jobs at once", OPTION_NUMBER,
     offsetof(struct key_options, max_concurrent_jobs)},
    {"--max-jobs-per-minute", "N", "jobs that it may start in a minute", OPTION_NUMBER,
     offsetof(struct key_options, max_jobs_per_minute)},
    {"--max-timeout-ms", "MS", "the longest that a job of it may run", OPTION_NUMBER,
     offsetof(struct key_options, max.timeout_ms)},
    {"--max-memory-bytes", "N", "the most that `limits` of its requests may say: memory", OPTION_NUMBER,
     offsetof(struct key_options, max.memory_bytes)},
    {"--max-pids", "N", "the same of processes and threads", OPTION_NUMBER,
     offsetof(struct key_options, max.pids)},
    {"--max-cpu-percent", "N", "the same of processors, 100 for one", OPTION_NUMBER,
     offsetof(struct key_options, max.cpu_percent)},
    {"--max-cpu-ms", "MS", "the same of processor time", OPTION_NUMBER,
     offsetof(struct key_options, max.cpu_ms)},
    {"--max-scratch-bytes", "N", "the same of the files that a job writes", OPTION_NUMBER,
     offsetof(struct key_options, max.scratch_bytes)},
    {"--max-output-bytes", "N", "the same of stdout and stderr, each", OPTION_NUMBER,
     offsetof(struct key_options, max.output_bytes)},
    {"--expires", "WHEN", "2027-01-31 or 2027-01-31T12:00:00Z: from then on it is no key", OPTION_TEXT,
     offsetof(struct key_options, expires)},
    {"--approver", NULL, "it may approve and reject jobs that wait for that", OPTION_SWITCH,
     offsetof(struct key_options, approver)},
};

static const struct option_row file_rows[] = {FILE_ROW};

const struct option_table key_add_table = {
    .command = "key add",
    .examples = "immure key add reports --file /etc/immure/keys.textproto --policy strict\n",
    .synopsis = "NAME --file FILE [OPTION...]",
    .about =
        "Makes a key, prints it, this one time, and appends its hash to the file, which is made if need be. "
        "A running server takes it by itself.",
    .footer =
        "Exit code: 0, 1 if the file cannot be read or written, or has the name already, 2 for wrong usage.",
    .rows = add_rows,
    .n_rows = ARRAY_SIZE(add_rows),
};

const struct option_table key_list_table = {
    .command = "key list",
    .examples = "immure key list --file /etc/immure/keys.textproto\n",
    .synopsis = "--file FILE",
    .about = "Prints the keys of the file, one per line, with tabs: name, team, expiry, policies, runtimes.",
    .rows = file_rows,
    .n_rows = ARRAY_SIZE(file_rows),
};

const struct option_table key_revoke_table = {
    .command = "key revoke",
    .examples = "immure key revoke reports --file /etc/immure/keys.textproto\n",
    .synopsis = "NAME --file FILE",
    .about = "Takes a key out of the file. A running server refuses it from then on; its jobs keep running.",
    .rows = file_rows,
    .n_rows = ARRAY_SIZE(file_rows),
};

/* The directory, locked: one edit at a time. */
static int lock_directory(const char *path, char **ret_directory, int *ret_fd, struct err *reterr)
{
    const char *slash = strrchr(path, '/');
    char *directory = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
    int fd = directory ? open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd < 0 || flock(fd, LOCK_EX) < 0) {
        int code = directory ? errno : ENOMEM;
        free(directory);
        fd_closep(&fd);
        char why[IO_PATH_ERROR_BYTES];
        return err_set(reterr, ERR_CONFIG, code, path, "%s", io_path_error(path, code, why));
    }
    *ret_directory = directory;
    *ret_fd = fd;
    return 0;
}

/* Owner and mode stay those of the file that is replaced; a new one is its owner's alone. */
static int fill(int fd, const struct buf *text, const struct stat *old)
{
    if (old && (fchown(fd, old->st_uid, old->st_gid) < 0 || fchmod(fd, old->st_mode & 07777) < 0)) {
        return -errno;
    }
    int r = text->len > 0 ? io_write_full(fd, text->data, text->len) : 0;
    return r < 0 ? r : fsync(fd) < 0 ? -errno : 0;
}

static int replace(const char *path, const char *directory, const struct buf *text, struct err *reterr)
{
    struct stat old;
    char temporary[4096];
    bool is_there = stat(path, &old) == 0;
    snprintf(temporary, sizeof temporary, "%s/.immure-keys-XXXXXX", directory);
    CLEANUP(fd_closep) int fd = mkostemp(temporary, O_CLOEXEC); /* mode 0600 */
    if (fd < 0) {
        return err_set(reterr, ERR_CONFIG, errno, path, "cannot be replaced: %s", strerror(errno));
    }
    int r = fill(fd, text, is_there ? &old : NULL);
    if (r == 0 && rename(temporary, path) < 0) {
        r = -errno;
    }
    if (r < 0) {
        unlink(temporary);
        return err_set(reterr, ERR_CONFIG, -r, path, "cannot be replaced: %s", strerror(-r));
    }
    return 0;
}

static int read_file(const char *path, bool may_be_missing, struct buf *ret, struct err *reterr)
{
    buf_puts(ret, "");
    if (may_be_missing && access(path, F_OK) < 0 && errno == ENOENT) {
        return 0;
    }
    return protofile_read(path, ret, reterr);
}

static int add_key(const struct key_options *options, const char *name, struct err *reterr)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    CLEANUP(freep) char *directory = NULL;
    CLEANUP(fd_closep) int lock = -1;
    char key[KEY_BYTES];
    const struct key_wish wish = {.name = name,
                                  .team = options->team,
                                  .expires = options->expires,
                                  .policies = options->policies.items,
                                  .n_policies = options->policies.n,
                                  .runtimes = options->runtimes.items,
                                  .n_runtimes = options->runtimes.n,
                                  .max_concurrent_jobs = options->max_concurrent_jobs,
                                  .max_jobs_per_minute = options->max_jobs_per_minute,
                                  .max = options->max,
                                  .approver = options->approver};
    int r = lock_directory(options->file, &directory, &lock, reterr);
    r = r < 0 ? r : read_file(options->file, true, &text, reterr);
    r = r < 0 ? r : key_file_add(options->file, &wish, &text, key, reterr);
    r = r < 0 ? r : replace(options->file, directory, &text, reterr);
    if (r == 0) {
        puts(key);
    }
    explicit_bzero(key, sizeof key);
    return r;
}

static const char *or_dash(const char *text)
{
    return *text ? text : "-";
}

static int list_keys(const struct key_options *options, const char *name, struct err *reterr)
{
    (void)name;
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    CLEANUP(key_rows_clear) struct key_rows rows = {0};
    int r = read_file(options->file, false, &text, reterr);
    r = r < 0 ? r : key_file_list(options->file, text.data, text.len, &rows, reterr);
    for (size_t i = 0; i < rows.n; i++) {
        const struct key_row *row = &rows.rows[i];
        printf("%s\t%s\t%s\t%s\t%s\n", row->name, or_dash(row->team), or_dash(row->expires),
               or_dash(row->policies), or_dash(row->runtimes));
    }
    return r;
}

/* Whoever takes the last one away is to know that nothing opens. */
static int tell_if_last(const char *path, const struct buf *text, const char *name, struct err *reterr)
{
    CLEANUP(key_rows_clear) struct key_rows left = {0};
    int r = key_file_list(path, text->data, text->len, &left, reterr);
    if (r == 0 && left.n == 0) {
        fprintf(
            stderr,
            "immure key revoke: %s was the last key of %s; where the configuration has no other, nobody may "
            "call until there is one\n",
            name, path);
    }
    return r;
}

static int revoke_key(const struct key_options *options, const char *name, struct err *reterr)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    CLEANUP(freep) char *directory = NULL;
    CLEANUP(fd_closep) int lock = -1;
    int r = lock_directory(options->file, &directory, &lock, reterr);
    r = r < 0 ? r : read_file(options->file, false, &text, reterr);
    r = r < 0 ? r : key_file_remove(options->file, name, &text, reterr);
    r = r < 0 ? r : replace(options->file, directory, &text, reterr);
    return r < 0 ? r : tell_if_last(options->file, &text, name, reterr);
}

static const struct {
    const char *name;
    const struct option_table *table;
    bool takes_name;
    int (*run)(const struct key_options *options, const char *name, struct err *reterr);
} actions[] = {
    {"add", &key_add_table, true, add_key},
    {"list", &key_list_table, false, list_keys},
    {"revoke", &key_revoke_table, true, revoke_key},
};

static int run_action(size_t i, int argc, char **argv)
{
    struct key_options options = {0};
    struct err err = {0};
    int n;
    int r = options_parse(actions[i].table, argc, argv, &options, &n, &err);
    if (r == OPTIONS_HELP) {
        options_print_help(actions[i].table, stdout);
        return EXIT_CODE_OK;
    }
    if (r == 0 && n != (actions[i].takes_name ? 1 : 0)) {
        r = err_set(&err, ERR_INVALID, 0, "NAME",
                    actions[i].takes_name ? "which key?" : "takes no arguments");
    }
    if (r == 0 && !options.file) {
        r = err_set(&err, ERR_INVALID, 0, "--file",
                    "which file? Give the file that the configuration's key_file names");
    }
    if (r < 0) {
        return command_fail(actions[i].table->command, &err, EXIT_CODE_USAGE);
    }
    r = actions[i].run(&options, actions[i].takes_name ? argv[1] : NULL, &err);
    return r < 0 ? command_fail(actions[i].table->command, &err, EXIT_CODE_FAILED) : EXIT_CODE_OK;
}

int cmd_key(int argc, char **argv)
{
    for (size_t i = 0; argc >= 2 && i < ARRAY_SIZE(actions); i++) {
        if (strcmp(argv[1], actions[i].name) == 0) {
            return run_action(i, argc - 1, argv + 1);
        }
    }
    return command_usage(argc, argv,
                         "usage: immure key add NAME --file FILE [OPTION...]\n"
                         "       immure key list --file FILE\n"
                         "       immure key revoke NAME --file FILE\n"
                         "\n"
                         "`immure key add --help` tells more.\n");
}
