/* `immure policy lint`, `explain` and `show`: what a policy file says, before anything runs under it. */
#include <stdio.h>
#include <string.h>

#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "policy/policy.h"
#include "server/cli/command.h"
#include "server/cli/options.h"
#include "server/host/interpreter.h"

struct lint_options {
    bool strict, sets, names;
};

static const struct option_row lint_rows[] = {
    {"--strict", NULL, "add advice on what could be tighter", OPTION_SWITCH,
     offsetof(struct lint_options, strict)},
    {"--sets", NULL, "list the shipped sets of system calls, with their reasons", OPTION_SWITCH,
     offsetof(struct lint_options, sets)},
    {"--names", NULL, "list the arguments of system calls that have names, with their values", OPTION_SWITCH,
     offsetof(struct lint_options, names)},
};

static const struct option_table lint_table = {
    .command = "policy lint",
    .synopsis = "[--strict] [--sets] [--names] NAME|FILE...",
    .about = "Checks policies: a shipped one by name, or a file if there is a '/' or a '.' in it.",
    .footer = "Exit code: 0 nothing found, 1 findings or errors, 2 wrong usage.",
    .rows = lint_rows,
    .n_rows = ARRAY_SIZE(lint_rows),
};

static const struct option_table explain_table = {
    .command = "policy explain",
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

static const struct option_table show_table = {
    .command = "policy show",
    .synopsis = "[--flat] NAME|FILE",
    .about = "Prints the text of a policy, or of a part.",
    .footer = "Exit code: 0, 1 if there is none or it cannot be put together, 2 wrong usage.",
    .rows = show_rows,
    .n_rows = ARRAY_SIZE(show_rows),
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

/* Every line of `findings` with the policy's name before it. */
static void print_findings(const char *name, const char *findings)
{
    while (*findings) {
        size_t length = strcspn(findings, "\n");
        printf("%s: %.*s\n", name, (int)length, findings);
        findings += length + (findings[length] == '\n');
    }
}

static int lint_one(const char *name, bool strict)
{
    struct err err = {0};
    struct policy *policy = NULL;
    if (resolve(name, &policy, &err) < 0) {
        return command_fail("policy lint", &err, EXIT_CODE_FAILED);
    }
    CLEANUP(buf_free) struct buf findings = BUF_INIT;
    int n_findings = policy_lint(policy, strict, &findings);
    policy_free(policy);
    if (findings.failed || n_findings < 0) {
        return out_of_memory("policy lint");
    }
    if (findings.data) {
        print_findings(name, findings.data);
    }
    if (n_findings == 0) {
        printf("%s: nothing found\n", name);
    }
    return n_findings == 0 ? EXIT_CODE_OK : EXIT_CODE_FAILED;
}

static int print_list(void (*print)(struct buf *))
{
    CLEANUP(buf_free) struct buf list = BUF_INIT;
    print(&list);
    if (list.failed || !list.data) {
        return out_of_memory("policy lint");
    }
    fputs(list.data, stdout);
    return EXIT_CODE_OK;
}

static int policy_lint_main(int argc, char **argv)
{
    struct lint_options options = {0};
    struct err err = {0};
    int n_arguments;
    int r = options_parse(&lint_table, argc, argv, &options, &n_arguments, &err);
    if (r == OPTIONS_HELP) {
        options_print_help(&lint_table, stdout);
        return EXIT_CODE_OK;
    }
    if (r == 0 && n_arguments == 0 && !options.sets && !options.names) {
        r = err_set(&err, ERR_INVALID, 0, NULL, "which policy? `immure policy lint NAME|FILE...`");
    }
    if (r < 0) {
        return command_fail("policy lint", &err, EXIT_CODE_USAGE);
    }
    int code = options.sets ? print_list(policy_print_sets) : EXIT_CODE_OK;
    code = options.names ? print_list(policy_print_names) : code;
    for (int i = 1; i <= n_arguments; i++) {
        int one = lint_one(argv[i], options.strict);
        code = one != EXIT_CODE_OK ? one : code;
    }
    return code;
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
    int r = options_parse(&explain_table, argc, argv, NULL, &n_arguments, &err);
    if (r == OPTIONS_HELP) {
        options_print_help(&explain_table, stdout);
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
    int r = options_parse(&show_table, argc, argv, &options, &n_arguments, &err);
    if (r == OPTIONS_HELP) {
        options_print_help(&show_table, stdout);
        return EXIT_CODE_OK;
    }
    if (r == 0 && n_arguments != 1) {
        r = err_set(&err, ERR_INVALID, 0, NULL, "takes one policy: `immure policy show [--flat] NAME|FILE`");
    }
    return r < 0 ? command_fail("policy show", &err, EXIT_CODE_USAGE) : show(argv[1], options.flat);
}

int cmd_policy(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } verbs[] = {{"lint", policy_lint_main}, {"explain", policy_explain_main}, {"show", policy_show_main}};
    for (size_t i = 0; argc > 1 && i < ARRAY_SIZE(verbs); i++) {
        if (strcmp(argv[1], verbs[i].name) == 0) {
            return verbs[i].run(argc - 1, argv + 1);
        }
    }
    return command_usage(argc, argv,
                         "usage: immure policy lint [--strict] [--sets] [--names] NAME|FILE...\n"
                         "       immure policy explain NAME|FILE\n"
                         "       immure policy show [--flat] NAME|FILE\n"
                         "\n"
                         "`immure policy lint --help` and so on tell more.\n");
}
