/* `immure audit verify`: has anybody changed the audit trail? Reads files and writes nothing but its answer.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/audit/verify.h"
#include "server/cli/command.h"
#include "server/cli/options.h"
#include "server/cli/tables.h"

struct verify_options {
    const char *contains;
    bool by_directory;
};

static const struct option_row verify_rows[] = {
    {"--contains", "SHA256",
     "a line with this hash must be among them: one that an earlier run, or the server's log, named as the "
     "last",
     OPTION_TEXT, offsetof(struct verify_options, contains)},
    {"--by-directory", NULL,
     "the files of each directory are one trail: what several servers have written, gathered under one roof",
     OPTION_SWITCH, offsetof(struct verify_options, by_directory)},
};

const struct option_table audit_verify_table = {
    .command = "audit verify",
    .examples = "immure audit verify /var/log/immure/audit.log\n"
                "immure audit verify --by-directory /srv/gathered/*/audit.log*\n",
    .synopsis = "[--contains SHA256] [--by-directory] FILE...",
    .about =
        "Holds each line of an audit log against the hash in the one behind it: lines that were changed, "
        "removed, inserted or reordered are told by file and line. Several files are read in the order of "
        "their lines' numbers: LOG.* LOG.",
    .footer =
        "Nothing in the files can tell of lines that were cut off at the end of the newest one, nor of a "
        "trail that was written anew from some line on: compare with a hash that is kept elsewhere.\n"
        "Exit code: 0 nothing wrong, 1 something is, or a file cannot be read, 2 wrong usage.",
    .rows = verify_rows,
    .n_rows = ARRAY_SIZE(verify_rows),
};

static void print_finding(void *arg, bool fault, const char *file, uint64_t line, const char *text)
{
    (void)arg;
    printf("%s:%" PRIu64 ": %s%s\n", file, line, fault ? "" : "note: ", text);
}

static bool is_hash(const char *text)
{
    return strlen(text) == SHA256_HEX - 1 && strspn(text, "0123456789abcdef") == SHA256_HEX - 1;
}

static void print_summary(const struct audit_verdict *verdict)
{
    const struct audit_link *last = &verdict->last;
    if (verdict->lines == 0 || last->seq == 0) {
        puts("there is no line of an audit chain");
        return;
    }
    if (verdict->first_prev.seq > 0) {
        printf("note: it begins behind line number %" PRIu64 " with hash %s, which is not among the files\n",
               verdict->first_prev.seq, verdict->first_prev.sha256);
    }
    if (!verdict->closed) {
        puts("note: the last line is not the end of a server's run: it still writes, or it has crashed, or "
             "lines were cut off");
    }
    printf("%" PRIu64 " lines, %" PRIu64 " faults; the last is number %" PRIu64 " with hash %s\n",
           verdict->lines, verdict->faults, last->seq, last->sha256);
}

/* The bytes of a path before its last part. */
static size_t directory_size(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) : 0;
}

static bool same_directory(const char *a, const char *b)
{
    size_t size = directory_size(a);
    return size == directory_size(b) && memcmp(a, b, size) == 0;
}

/* -1: a file cannot be read; else whether all is well. */
static int verify_trail(const char *const *paths, size_t n, const char *contains, bool *ret_contains)
{
    const struct audit_report report = {.tell = print_finding};
    struct audit_verdict verdict;
    struct err err = {0};
    if (audit_verify(paths, n, contains, &report, &verdict, &err) < 0) {
        command_fail("audit verify", &err, EXIT_CODE_FAILED);
        return -1;
    }
    print_summary(&verdict);
    *ret_contains = *ret_contains || verdict.contains;
    return verdict.faults == 0 && verdict.last.seq > 0;
}

/* One trail after the other, in the order in which their first files are named. */
static int verify_all(char **paths, size_t n, const struct verify_options *options)
{
    CLEANUP(freep) const char **trail = calloc(n, sizeof *trail);
    bool contains = !options->contains, well = trail != NULL;
    size_t size = 0;
    for (size_t i = 0; trail && i < n; i++) {
        const char *first = paths[i];
        if (!first) {
            continue; /* of a trail that has been read */
        }
        size = 0;
        for (size_t j = i; j < n; j++) {
            if (paths[j] && (!options->by_directory || same_directory(paths[j], first))) {
                trail[size++] = paths[j];
                paths[j] = NULL;
            }
        }
        if (options->by_directory) {
            printf("%.*s:\n", (int)directory_size(first), first);
        }
        int r = verify_trail(trail, size, options->contains, &contains);
        if (r < 0) {
            return EXIT_CODE_FAILED;
        }
        well = well && r > 0;
    }
    if (!contains) {
        printf("there is no line with hash %s: cut off, or changed\n", options->contains);
    }
    return contains && well ? EXIT_CODE_OK : EXIT_CODE_FAILED;
}

static int verify(int argc, char **argv)
{
    struct verify_options options = {0};
    struct err err = {0};
    int n;
    int r = options_parse(&audit_verify_table, argc, argv, &options, &n, &err);
    if (r == OPTIONS_HELP) {
        options_print_help(&audit_verify_table, stdout);
        return EXIT_CODE_OK;
    }
    if (r == 0 && n == 0) {
        r = err_set(&err, ERR_INVALID, 0, "FILE", "which files?");
    }
    if (r == 0 && options.contains && !is_hash(options.contains)) {
        r = err_set(&err, ERR_INVALID, 0, "--contains", "must be 64 hexadecimal digits, in lower case");
    }
    if (r < 0 || n == 0) {
        return command_fail("audit verify", &err, EXIT_CODE_USAGE);
    }
    return verify_all(argv + 1, (size_t)n, &options);
}

int cmd_audit(int argc, char **argv)
{
    if (argc >= 2 && strcmp(argv[1], "verify") == 0) {
        return verify(argc - 1, argv + 1);
    }
    return command_usage(argc, argv,
                         "usage: immure audit verify [--contains SHA256] [--by-directory] FILE...\n"
                         "\n"
                         "`immure audit verify --help` tells more.\n");
}
