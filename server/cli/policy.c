/* `immure policy`: its verbs, and `explain` and `show`: what a policy file says, before anything runs under
 * it. */
#include <stdio.h>
#include <string.h>

#include "config/server/config.h"
#include "config/shipped.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "policy/policy.h"
#include "server/cli/command.h"
#include "server/cli/options.h"
#include "server/cli/tables.h"
#include "server/host/interpreter.h"

const struct option_table policy_explain_table = {
    .command = "policy explain",
    .examples = "immure policy explain strict\n",
    .synopsis = "NAME|FILE",
    .about =
        "Prints what a policy means: its limits, its filter in words, and every step that builds its jail.",
    .footer = "Exit code: 0, 1 if the policy is not valid, 2 wrong usage.",
};

struct show_options {
    bool flat;
};

static const struct option_row show_rows[] = {
    {"--flat", NULL, "together with all that it uses; policy_sha256 is of this text", OPTION_SWITCH,
     offsetof(struct show_options, flat)},
};

const struct option_table policy_show_table = {
    .command = "policy show",
    .examples = "immure policy show --flat python > mine.textproto\n",
    .synopsis = "[--flat] NAME|FILE",
    .about = "Prints the text of a policy, or of a part.",
    .footer = "Exit code: 0, 1 if there is none or it cannot be put together, 2 wrong usage.",
    .rows = show_rows,
    .n_rows = ARRAY_SIZE(show_rows),
};

const struct option_table policy_list_table = {
    .command = "policy list",
    .synopsis = "",
    .about =
        "Prints the shipped policies and, apart from them, the parts that policies are made of: name and\n"
        "description, with a tab between them.",
    .footer = "Exit code: 0, 2 wrong usage.",
    .examples = "immure policy list\n",
};

/* A file in the working directory is meant where the name has a dot, which no policy's name has. */
static const char *file_or_name(const char *name, char path[4096])
{
    if (strchr(name, '/') || !strchr(name, '.')) {
        return name;
    }
    snprintf(path, 4096, "./%s", name);
    return path;
}

static int resolve(const char *name, struct policy **ret, struct err *reterr)
{
    char path[4096];
    return policy_resolve(file_or_name(name, path), ret, reterr);
}

static int out_of_memory(const char *command)
{
    struct err err = {0};
    err_set(&err, ERR_INTERNAL, 0, NULL, "out of memory");
    return command_fail(command, &err, EXIT_CODE_FAILED);
}

static int explain(const char *name)
{
    struct err err = {0};
    struct policy *policy = NULL;
    struct runtime_config interpreter = {0};
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    int r = resolve(name, &policy, &err);
    if (r == 0) {
        interpreter_show(policy, &interpreter);
        r = policy_explain(policy, &text, &err);
        policy_free(policy);
        runtime_config_forget(&interpreter);
    }
    if (r < 0) {
        return command_fail("policy explain", &err, EXIT_CODE_FAILED);
    }
    if (text.failed || !text.data) {
        return out_of_memory("policy explain");
    }
    fputs(text.data, stdout);
    return EXIT_CODE_OK;
}

static int policy_explain_main(int argc, char **argv)
{
    struct err err = {0};
    int n_arguments;
    int r = options_parse(&policy_explain_table, argc, argv, NULL, &n_arguments, &err);
    if (r == OPTIONS_HELP) {
        options_print_help(&policy_explain_table, stdout);
        return EXIT_CODE_OK;
    }
    if (r == 0 && n_arguments != 1) {
        r = err_set(&err, ERR_INVALID, 0, NULL, "takes one policy: `immure policy explain NAME|FILE`");
    }
    return r < 0 ? command_fail("policy explain", &err, EXIT_CODE_USAGE) : explain(argv[1]);
}

static int show(const char *name, bool flat)
{
    char path[4096];
    struct err err = {0};
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    if (policy_show(file_or_name(name, path), flat, &text, &err) < 0) {
        return command_fail("policy show", &err, EXIT_CODE_FAILED);
    }
    fwrite(text.data ? text.data : "", 1, text.len, stdout);
    return EXIT_CODE_OK;
}

static int policy_show_main(int argc, char **argv)
{
    struct show_options options = {0};
    struct err err = {0};
    int n_arguments;
    int r = options_parse(&policy_show_table, argc, argv, &options, &n_arguments, &err);
    if (r == OPTIONS_HELP) {
        options_print_help(&policy_show_table, stdout);
        return EXIT_CODE_OK;
    }
    if (r == 0 && n_arguments != 1) {
        r = err_set(&err, ERR_INVALID, 0, NULL, "takes one policy: `immure policy show [--flat] NAME|FILE`");
    }
    return r < 0 ? command_fail("policy show", &err, EXIT_CODE_USAGE) : show(argv[1], options.flat);
}

/* A part has no description but the first sentence of the comment that it begins with. */
static void print_part(const struct shipped_file *part)
{
    const char *at = part->data + strspn(part->data, "# ");
    printf("%s\t", part->name);
    while (*at && !(at[0] == '.' && (at[1] == ' ' || at[1] == '\n'))) {
        size_t gap = at[0] == '\n' ? strspn(at, "\n# ") : 0;
        putchar(gap ? ' ' : *at);
        at += gap ? gap : 1;
    }
    puts(".");
}

static int print_policy(const struct shipped_file *file, struct err *reterr)
{
    struct policy *policy = NULL;
    int r = policy_resolve(file->name, &policy, reterr);
    if (r == 0) {
        printf("%s\t%s\n", file->name, policy_spec(policy)->description);
        policy_free(policy);
    }
    return r;
}

static int policy_list_main(int argc, char **argv)
{
    struct err err = {0};
    int n_arguments;
    int r = options_parse(&policy_list_table, argc, argv, NULL, &n_arguments, &err);
    if (r == OPTIONS_HELP) {
        options_print_help(&policy_list_table, stdout);
        return EXIT_CODE_OK;
    }
    if (r == 0 && n_arguments > 0) {
        r = err_set(&err, ERR_INVALID, 0, NULL, "takes no arguments: `immure policy list`");
    }
    if (r < 0) {
        return command_fail("policy list", &err, EXIT_CODE_USAGE);
    }
    for (const struct shipped_file *file = shipped_policies(); r == 0 && file->name; file++) {
        r = print_policy(file, &err);
    }
    puts("\nparts:");
    for (const struct shipped_file *part = shipped_parts(); part->name; part++) {
        print_part(part);
    }
    return r < 0 ? command_fail("policy list", &err, EXIT_CODE_FAILED) : EXIT_CODE_OK;
}

int cmd_policy(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } verbs[] = {{"list", policy_list_main},       {"lint", policy_lint_main},
                 {"explain", policy_explain_main}, {"show", policy_show_main},
                 {"diff", policy_diff_main},       {"test", policy_test_main},
                 {"learn", policy_learn_main},     {"import", policy_import_main}};
    for (size_t i = 0; argc > 1 && i < ARRAY_SIZE(verbs); i++) {
        if (strcmp(argv[1], verbs[i].name) == 0) {
            return verbs[i].run(argc - 1, argv + 1);
        }
    }
    return command_usage(argc, argv,
                         "usage: immure policy list\n"
                         "       immure policy lint [OPTION...] NAME|FILE...\n"
                         "       immure policy explain NAME|FILE\n"
                         "       immure policy show [--flat] NAME|FILE\n"
                         "       immure policy learn [OPTION...] -- COMMAND [ARGUMENT...]\n"
                         "       immure policy diff [--json] NAME|FILE NAME|FILE\n"
                         "       immure policy test [--json] [--cgroup MODE] FILE...\n"
                         "       immure policy import --from FORMAT [-o OUT] [--with-libc] FILE\n"
                         "\n"
                         "`immure policy lint --help` and so on tell more.\n");
}
