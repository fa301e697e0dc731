/* `immure serve`. */
#include <stdio.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/cli/command.h"
#include "server/cli/options.h"
#include "server/cli/tables.h"
#include "server/warden/warden.h"

static const struct option_row serve_rows[] = {
    {"--config", "FILE",
     "the configuration: text format, .json or .binpb; default: $SANDBOX_EXECUTOR_CONFIG, else the "
     "shipped one",
     OPTION_TEXT, offsetof(struct warden_options, config_path)},
    {"--check-config", NULL, "read the configuration and every policy, say whether they are valid, and stop",
     OPTION_SWITCH, offsetof(struct warden_options, check_only)},
};

const struct option_table serve_table = {
    .command = "serve",
    .examples = "immure serve --config /etc/immure/server.textproto\n"
                "immure serve --check-config\n",
    .synopsis = "[--config FILE] [--check-config]",
    .about = "Answers jobs over HTTP. Each runs once, in a jail of its own.",
    .footer = "With nothing but a key in the environment it serves Python on 127.0.0.1:9099:\n"
              "  SANDBOX_EXECUTOR_SERVICE_API_KEY=... immure serve\n"
              "\n"
              "SIGTERM and SIGINT drain, a second one ends at once; SIGHUP reads configuration and policies "
              "again, all "
              "or nothing.\n"
              "Exit code: 0 after a drain, 1 if it could not start, 2 for wrong usage.",
    .rows = serve_rows,
    .n_rows = ARRAY_SIZE(serve_rows),
};

int cmd_serve(int argc, char **argv)
{
    struct warden_options options = {0};
    struct err err = {0};
    int n_arguments;
    int r = options_parse(&serve_table, argc, argv, &options, &n_arguments, &err);
    if (r == OPTIONS_HELP) {
        options_print_help(&serve_table, stdout);
        return EXIT_CODE_OK;
    }
    if (r == 0 && n_arguments > 0) {
        r = err_set(&err, ERR_INVALID, 0, argv[1], "serve takes no arguments");
    }
    if (r == 0 && options.config_path && options.config_path[0] == '\0') {
        r = err_set(&err, ERR_INVALID, 0, "--config", "names no file: it is empty");
    }
    if (r < 0) {
        return command_fail("serve", &err, EXIT_CODE_USAGE);
    }
    return warden_run(&options, &err) < 0 ? command_fail("serve", &err, EXIT_CODE_FAILED) : EXIT_CODE_OK;
}
