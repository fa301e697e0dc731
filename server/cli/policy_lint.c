/* `immure policy lint`: what is wrong with policies, and what their authors may not have meant. */
#include <stdio.h>
#include <string.h>

#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "policy/lint/lint.h"
#include "policy/policy.h"
#include "server/cli/command.h"
#include "server/cli/options.h"
#include "server/cli/tables.h"
#include "server/host/interpreter.h"

struct lint_options {
    bool strict, fix, json, rules, sets, names;
};

static const struct option_row lint_rows[] = {
    {"--strict", NULL, "add advice on what could be tighter", OPTION_SWITCH,
     offsetof(struct lint_options, strict)},
    {"--fix", NULL,
     "correct in the files what has one answer: names for numbers, and what stands there twice",
     OPTION_SWITCH, offsetof(struct lint_options, fix)},
    {"--json", NULL, "one JSON object with all findings", OPTION_SWITCH, offsetof(struct lint_options, json)},
    {"--rules", NULL, "list the rules, which lint_waive names", OPTION_SWITCH,
     offsetof(struct lint_options, rules)},
    {"--sets", NULL, "list the shipped sets of system calls, with their reasons", OPTION_SWITCH,
     offsetof(struct lint_options, sets)},
    {"--names", NULL, "list the arguments of system calls that have names, with their values", OPTION_SWITCH,
     offsetof(struct lint_options, names)},
};

const struct option_table policy_lint_table = {
    .command = "policy lint",
    .examples = "immure policy lint --strict ./mine.textproto\n"
                "immure policy lint --names\n",
    .synopsis = "[--strict] [--fix] [--json] [--rules] [--sets] [--names] NAME|FILE...",
    .about = "Checks policies: a shipped one by name, or a file if there is a '/' or a '.' in it.",
    .footer = "Exit code: 0 nothing found, 1 findings or errors, 2 wrong usage.",
    .rows = lint_rows,
    .n_rows = ARRAY_SIZE(lint_rows),
};

static int print(struct buf *text)
{
    struct err err = {0};
    if (text->failed) {
        err_set(&err, ERR_INTERNAL, 0, NULL, "out of memory");
        return command_fail("policy lint", &err, EXIT_CODE_FAILED);
    }
    fputs(text->data ? text->data : "", stdout);
    return EXIT_CODE_OK;
}

static void lint_freep(struct lint **lint)
{
    lint_free(*lint);
}

/* What is wrong goes to stderr, what may not be meant to stdout. */
static void print_findings(const char *name, const struct lint *lint, struct buf *out)
{
    for (size_t i = 0; i < lint_count(lint); i++) {
        const struct lint_finding *finding = lint_at(lint, i);
        CLEANUP(buf_free) struct buf line = BUF_INIT;
        lint_print_finding(finding, &line);
        if (finding->rule->severity == LINT_ERROR) {
            fprintf(stderr, "immure policy lint: %s\n", line.data ? line.data : "");
        } else {
            buf_printf(out, "%s\n", line.data ? line.data : "");
        }
    }
    if (lint_count(lint) == 0) {
        buf_printf(out, "%s: nothing found\n", name);
    }
}

static void print_objects(const char *name, const struct lint *lint, struct buf *out)
{
    for (size_t i = 0; i < lint_count(lint); i++) {
        buf_puts(out, out->len > 0 ? ",\n  " : "\n  ");
        lint_print_json(name, lint_at(lint, i), out);
    }
}

static int look(const char *name, bool strict, struct lint **ret, struct err *reterr)
{
    struct runtime_config interpreter = {0};
    int r = lint_open(name, ret, reterr);
    if (r == 0 && lint_policy(*ret)) {
        interpreter_show(lint_policy(*ret), &interpreter);
    }
    r = r < 0 ? r : lint_run(*ret, strict, reterr);
    if (r == 0 && lint_policy(*ret)) {
        policy_set_interpreter(lint_policy(*ret), NULL);
    }
    runtime_config_forget(&interpreter);
    return r;
}

/* Corrects, and looks again. */
static int look_after_fixing(const char *name, const struct lint_options *options, struct lint **ret,
                             struct err *reterr)
{
    CLEANUP(lint_freep) struct lint *lint = NULL;
    size_t n = 0;
    int r = options->fix ? look(name, true, &lint, reterr) : 0;
    r = r < 0 || !options->fix ? r : lint_fix(lint, &n, reterr);
    if (n > 0) {
        fprintf(stderr, "%s: %zu corrected\n", name, n);
    }
    return r < 0 ? r : look(name, options->strict, ret, reterr);
}

static int lint_one(const char *name, const struct lint_options *options, struct buf *out)
{
    CLEANUP(lint_freep) struct lint *lint = NULL;
    struct err err = {0};
    if (look_after_fixing(name, options, &lint, &err) < 0) {
        return command_fail("policy lint", &err, EXIT_CODE_FAILED);
    }
    (options->json ? print_objects : print_findings)(name, lint, out);
    return lint_count(lint) == 0 ? EXIT_CODE_OK : EXIT_CODE_FAILED;
}

static int lint_all(const struct lint_options *options, char **names, int n)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT;
    int code = EXIT_CODE_OK;
    if (options->rules) {
        lint_print_rules(&out);
    }
    if (options->sets) {
        policy_print_sets(&out);
    }
    if (options->names) {
        policy_print_names(&out);
    }
    for (int i = 0; i < n; i++) {
        CLEANUP(buf_free) struct buf findings = BUF_INIT;
        int one = lint_one(names[i], options, options->json ? &out : &findings);
        code = one != EXIT_CODE_OK ? one : code;
        buf_puts(&out, findings.data ? findings.data : "");
    }
    if (options->json) {
        printf("{\"findings\": [");
        buf_puts(&out, out.len > 0 ? "\n]}\n" : "]}\n");
    }
    int printed = print(&out);
    return printed != EXIT_CODE_OK ? printed : code;
}

int policy_lint_main(int argc, char **argv)
{
    struct lint_options options = {0};
    struct err err = {0};
    int n_arguments;
    int r = options_parse(&policy_lint_table, argc, argv, &options, &n_arguments, &err);
    bool lists = options.rules || options.sets || options.names;
    if (r == OPTIONS_HELP) {
        options_print_help(&policy_lint_table, stdout);
        return EXIT_CODE_OK;
    }
    if (r == 0 && n_arguments == 0 && !lists) {
        r = err_set(&err, ERR_INVALID, 0, NULL, "which policy? `immure policy lint NAME|FILE...`");
    }
    if (r == 0 && lists && options.json) {
        r = err_set(&err, ERR_INVALID, 0, "--json", "does not go with lists");
    }
    return r < 0 ? command_fail("policy lint", &err, EXIT_CODE_USAGE)
                 : lint_all(&options, argv + 1, n_arguments);
}
