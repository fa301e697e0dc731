/* `immure policy import`: a policy of another launcher, as one of ours. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "policy/import/import.h"
#include "server/cli/command.h"
#include "server/cli/options.h"
#include "server/cli/tables.h"

struct import_options {
    const char *from, *output;
    bool with_libc;
};

static const struct option_row import_rows[] = {
    {"--from", "FORMAT", "nsjail (or Kafel), oci, docker, systemd or minijail", OPTION_TEXT,
     offsetof(struct import_options, from)},
    {"-o", "OUT", "write to this file; default: standard output", OPTION_TEXT,
     offsetof(struct import_options, output)},
    {"--with-libc", NULL, "allow what a C library of today calls as programs start and end, too",
     OPTION_SWITCH, offsetof(struct import_options, with_libc)},
};

const struct option_table policy_import_table = {
    .command = "policy import",
    .examples = "immure policy import --from docker -o mine.textproto seccomp.json\n",
    .synopsis = "--from FORMAT [-o OUT] [--with-libc] FILE",
    .about = "Writes a policy of another launcher as one of immure's. What has no counterpart is named in "
             "its head and on\n"
             "standard error; what cannot be said exactly is denied.",
    .footer = "Exit code: 0, 1 if the file cannot be imported, 2 wrong usage.",
    .rows = import_rows,
    .n_rows = ARRAY_SIZE(import_rows),
};

static int write_out(const char *path, const struct buf *text, struct err *reterr)
{
    if (!path) {
        return fwrite(text->data, 1, text->len, stdout) == text->len && fflush(stdout) == 0
                   ? 0
                   : err_errno(reterr, errno, "writing the policy");
    }
    CLEANUP(fd_closep) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    int r = fd < 0 ? -errno : io_write_full(fd, text->data, text->len);
    return r < 0 ? err_errno(reterr, -r, "writing %s", path) : 0;
}

/* A policy is called as its file is. */
static const char *name_of(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash ? slash + 1 : path;
}

static int import(const struct import_options *options, const char *path, struct err *reterr)
{
    CLEANUP(buf_free) struct buf input = BUF_INIT;
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    CLEANUP(buf_free) struct buf notes = BUF_INIT;
    int r = io_read_file_at(AT_FDCWD, path, IMPORT_BYTES_MAX, &input);
    if (r < 0) {
        char why[IO_PATH_ERROR_BYTES];
        return err_set(reterr, ERR_CONFIG, -r, path, "cannot be read: %s", io_path_error(path, -r, why));
    }
    const struct import_request request = {
        .format = import_format_find(options->from),
        .path = path,
        .text = input.data ? input.data : "",
        .size = input.len,
        .name = name_of(options->output),
        .with_libc = options->with_libc,
    };
    r = policy_import(&request, &text, &notes, reterr);
    if (r < 0) {
        return r;
    }
    fputs(notes.data ? notes.data : "", stderr);
    return write_out(options->output, &text, reterr);
}

int policy_import_main(int argc, char **argv)
{
    struct import_options options = {0};
    struct err err = {0};
    int n_arguments;
    int r = options_parse(&policy_import_table, argc, argv, &options, &n_arguments, &err);
    if (r == OPTIONS_HELP) {
        options_print_help(&policy_import_table, stdout);
        return EXIT_CODE_OK;
    }
    if (r == 0 && (!options.from || !import_format_find(options.from))) {
        r = err_set(&err, ERR_INVALID, 0, "--from",
                    "one of nsjail, oci, docker, systemd and minijail is needed");
    }
    if (r == 0 && n_arguments != 1) {
        r = err_set(&err, ERR_INVALID, 0, NULL, "takes one file: `immure policy import --from FORMAT FILE`");
    }
    if (r < 0) {
        return command_fail("policy import", &err, EXIT_CODE_USAGE);
    }
    return import(&options, argv[1], &err) < 0 ? command_fail("policy import", &err, EXIT_CODE_FAILED)
                                               : EXIT_CODE_OK;
}
