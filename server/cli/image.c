/* `immure image`: the images that jobs may run in. The directory is the server's `image_directory`; a running
 * server takes what is there when a job asks for it. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/message/job.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/cli/command.h"
#include "server/cli/options.h"
#include "server/cli/tables.h"
#include "server/image/import.h"
#include "server/image/store.h"
#include "server/kit/utc.h"

#define DIRECTORY_VARIABLE "SANDBOX_EXECUTOR_IMAGE_DIRECTORY"
#define DEFAULT_MAX_BYTES  (8ull << 30)
#define DEFAULT_MAX_FILES  1000000u

struct image_options {
    const char *directory;
    uint64_t max_bytes, max_files;
    bool replace;
};

#define DIRECTORY_ROW                                                                                        \
    {                                                                                                        \
        "--directory", "DIR", "the server's `image_directory`; default: $" DIRECTORY_VARIABLE, OPTION_TEXT,  \
            offsetof(struct image_options, directory)                                                        \
    }

static const struct option_row import_rows[] = {
    DIRECTORY_ROW,
    {"--replace", NULL, "take the place of the image of that name", OPTION_SWITCH,
     offsetof(struct image_options, replace)},
    {"--max-bytes", "N", "what it may unpack to; default: 8 GiB", OPTION_NUMBER,
     offsetof(struct image_options, max_bytes)},
    {"--max-files", "N", "files, directories and links that it may have; default: 1000000", OPTION_NUMBER,
     offsetof(struct image_options, max_files)},
};

static const struct option_row directory_rows[] = {DIRECTORY_ROW};

const struct option_table image_import_table = {
    .command = "image import",
    .examples = "immure image import tools ./tools-oci-layout --directory /var/lib/immure/images\n",
    .synopsis = "NAME FILE|DIR [OPTION...]",
    .about =
        "Takes an OCI layout, an OCI or docker-save archive (these are unpacked by skopeo and umoci, in a "
        "jail), or\n"
        "a root directory, and gives it a name by which policies and requests refer to it. Devices and "
        "set-user-ID bits\n"
        "do not come along, and everything in it can be read by the jobs that run in it.",
    .footer = "Exit code: 0, 1 if it cannot be imported (then nothing has changed), 2 for wrong usage.",
    .rows = import_rows,
    .n_rows = ARRAY_SIZE(import_rows),
};

const struct option_table image_list_table = {
    .command = "image list",
    .examples = "immure image list --directory /var/lib/immure/images\n",
    .synopsis = "[--directory DIR]",
    .about = "One line for each image: name, digest, bytes, files, when it was imported, form and source, "
             "with tabs "
             "between.",
    .footer = "Exit code: 0, 1 if the directory cannot be read, 2 for wrong usage.",
    .rows = directory_rows,
    .n_rows = ARRAY_SIZE(directory_rows),
};

const struct option_table image_rm_table = {
    .command = "image rm",
    .examples = "immure image rm tools --directory /var/lib/immure/images\n",
    .synopsis = "NAME [--directory DIR]",
    .about = "Removes an image. Jobs that run in it keep it until they end.",
    .footer = "Exit code: 0, 1 if there is none of that name, 2 for wrong usage.",
    .rows = directory_rows,
    .n_rows = ARRAY_SIZE(directory_rows),
};

static int import_image(const struct image_options *options, char **arguments, struct err *reterr)
{
    const struct image_import import = {
        .directory = options->directory,
        .name = arguments[0],
        .source = arguments[1],
        .limits = {.bytes = options->max_bytes ? options->max_bytes : DEFAULT_MAX_BYTES,
                   .files = options->max_files ? options->max_files : DEFAULT_MAX_FILES},
        .replace = options->replace,
    };
    if (!image_name_is_valid(import.name)) {
        return err_set(reterr, ERR_INVALID, EINVAL, "NAME", "'%.80s' " IMAGE_NAME_RULE, import.name);
    }
    struct image_record record = {0};
    struct image_counts counts = {0};
    int r = image_import(&import, &record, &counts, reterr);
    if (r < 0) {
        return r;
    }
    printf("%s: %s, %" PRIu64 " files, %" PRIu64 " bytes", import.name, record.form, counts.files,
           counts.bytes);
    if (counts.dropped > 0 || counts.set_ids > 0) {
        printf("; without %" PRIu64 " devices, pipes or sockets and %" PRIu64 " set-id bits", counts.dropped,
               counts.set_ids);
    }
    putchar('\n');
    image_record_clear(&record);
    return 0;
}

/* A path may hold anything, and so may a terminal obey it. */
static void put_plain(const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        putchar(c < ' ' || c == 0x7f ? '?' : c);
    }
}

static void put_row(void *arg, const char *name, const struct image_record *record, const struct err *err)
{
    int *broken = arg;
    if (!record) {
        fprintf(stderr, "immure image list: %s: %s\n", name, err->text);
        ++*broken;
        return;
    }
    char when[UTC_BYTES];
    utc_write(record->imported_ms, when);
    printf("%s\t%s\t%" PRIu64 "\t%" PRIu64 "\t%s\t%s\t", name, record->digest[0] ? record->digest : "-",
           record->bytes, record->files, when, record->form);
    put_plain(record->source);
    putchar('\n');
}

static int list_images(const struct image_options *options, char **arguments, struct err *reterr)
{
    (void)arguments;
    int broken = 0;
    int r = image_store_list(options->directory, put_row, &broken, reterr);
    return r == 0 && broken > 0
               ? err_set(reterr, ERR_HOST, EBADMSG, NULL, "%d of them cannot be read", broken)
               : r;
}

static int remove_image(const struct image_options *options, char **arguments, struct err *reterr)
{
    bool in_use = false;
    CLEANUP(fd_closep) int store = -1;
    int r = image_store_lock(options->directory, &store, reterr);
    r = r < 0 ? r : image_store_remove(store, arguments[0], &in_use, reterr);
    if (in_use) {
        printf("%s: jobs run in it; its files go when another image is imported or removed after their end\n",
               arguments[0]);
    }
    return r;
}

static const struct {
    const char *name;
    const struct option_table *table;
    int n_arguments;
    const char *usage;
    int (*run)(const struct image_options *options, char **arguments, struct err *reterr);
} actions[] = {
    {"import", &image_import_table, 2, "a name, and a file or a directory", import_image},
    {"list", &image_list_table, 0, "no arguments", list_images},
    {"rm", &image_rm_table, 1, "the name of an image", remove_image},
};

static int run_action(size_t i, int argc, char **argv)
{
    struct image_options options = {0};
    struct err err = {0};
    int n;
    int r = options_parse(actions[i].table, argc, argv, &options, &n, &err);
    if (r == OPTIONS_HELP) {
        options_print_help(actions[i].table, stdout);
        return EXIT_CODE_OK;
    }
    if (!options.directory) {
        options.directory = getenv(DIRECTORY_VARIABLE);
    }
    if (r == 0 && n != actions[i].n_arguments) {
        r = err_set(&err, ERR_INVALID, EINVAL, NULL, "takes %s", actions[i].usage);
    }
    if (r == 0 && (!options.directory || !options.directory[0])) {
        r = err_set(&err, ERR_INVALID, EINVAL, "--directory",
                    "which one? Give the directory that the configuration's image_directory names");
    }
    if (r < 0) {
        return command_fail(actions[i].table->command, &err, EXIT_CODE_USAGE);
    }
    r = actions[i].run(&options, argv + 1, &err);
    return r < 0 ? command_fail(actions[i].table->command, &err, EXIT_CODE_FAILED) : EXIT_CODE_OK;
}

int cmd_image(int argc, char **argv)
{
    for (size_t i = 0; argc >= 2 && i < ARRAY_SIZE(actions); i++) {
        if (strcmp(argv[1], actions[i].name) == 0) {
            return run_action(i, argc - 1, argv + 1);
        }
    }
    return command_usage(argc, argv,
                         "usage: immure image import NAME FILE|DIR [OPTION...]\n"
                         "       immure image list [--directory DIR]\n"
                         "       immure image rm NAME [--directory DIR]\n"
                         "\n"
                         "`immure image import --help` tells more.\n");
}
