/* `immure policy diff`: what one policy says that another does not, as lines or as JSON. Runs in the process
 * of the command line. */
#include <stdio.h>
#include <string.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "policy/compare/compare.h"
#include "policy/policy.h"
#include "server/cli/command.h"
#include "server/cli/options.h"
#include "server/cli/tables.h"
#include "server/kit/json_out.h"

struct diff_options {
    bool json;
};

static const struct option_row diff_rows[] = {
    {"--json", NULL, "one JSON object instead of lines", OPTION_SWITCH, offsetof(struct diff_options, json)},
};

const struct option_table policy_diff_table = {
    .command = "policy diff",
    .examples = "immure policy diff python ./mine.textproto\n",
    .synopsis = "[--json] NAME|FILE NAME|FILE",
    .about = "Prints what two policies do not have in common: mounts, variables, limits, other fields, and "
             "the system\n"
             "calls that their compiled filters answer differently. '-' is the first one's, '+' the second "
             "one's.",
    .footer = "Exit code: 0 no difference, 1 differences, 2 errors and wrong usage.",
    .rows = diff_rows,
    .n_rows = ARRAY_SIZE(diff_rows),
};

static const struct {
    const char *heading, *key;
} sections[] = {
    [POLICY_SECTION_MOUNTS] = {"mounts", "mounts"},
    [POLICY_SECTION_ENVIRONMENT] = {"environment", "environment"},
    [POLICY_SECTION_LIMITS] = {"limits", "limits"},
    [POLICY_SECTION_OTHER] = {"other fields", "other"},
    [POLICY_SECTION_CALLS] = {"system calls", "system_calls"},
};

struct comparison {
    const char *names[2]; /* as they were given */
    struct policy_differences differences;
};

/* ---- Lines ---- */

/* Values of variables may hold anything, arrows too. */
static void put_row(const struct policy_difference *row, struct buf *ret)
{
    const char *but = row->section == POLICY_SECTION_ENVIRONMENT ? " \"" : "";
    buf_printf(ret, "  %c ", row->a && row->b ? '*' : row->a ? '-' : '+');
    policy_put_text(row->name, "", ret);
    buf_puts(ret, ": ");
    policy_put_text(row->a ? row->a : row->b, but, ret);
    if (row->a && row->b) {
        buf_puts(ret, " -> ");
        policy_put_text(row->b, but, ret);
    }
    buf_putc(ret, '\n');
}

static bool same_answers(const struct policy_difference *a, const struct policy_difference *b)
{
    return strcmp(a->a, b->a) == 0 && strcmp(a->b, b->b) == 0;
}

/* All calls with the answers of row `first`: those with any arguments in a line, the others in one each. */
static void put_calls_like(const struct policy_differences *differences, size_t first, struct buf *ret)
{
    const struct policy_difference *like = &differences->rows[first];
    size_t column = 0;
    buf_printf(ret, "  %c %s -> %s\n",
               like->a_allows == like->b_allows ? '*'
               : like->b_allows                 ? '+'
                                                : '-',
               like->a, like->b);
    for (size_t i = first; i < differences->n; i++) {
        const struct policy_difference *row = &differences->rows[i];
        if (!row->arguments && same_answers(row, like)) {
            policy_print_wrapped(row->name, 6, &column, ret);
        }
    }
    buf_puts(ret, column > 0 ? "\n" : "");
    for (size_t i = first; i < differences->n; i++) {
        const struct policy_difference *row = &differences->rows[i];
        if (row->arguments && same_answers(row, like)) {
            buf_printf(ret, "      %s(%s)\n", row->name, row->arguments);
        }
    }
}

static bool is_first_of_its_answers(const struct policy_differences *differences, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (differences->rows[i].section == POLICY_SECTION_CALLS &&
            same_answers(&differences->rows[i], &differences->rows[index])) {
            return false;
        }
    }
    return true;
}

/* What only the second allows, what only the first does, and the rest. */
static void put_calls(const struct comparison *comparison, struct buf *ret)
{
    const struct policy_differences *differences = &comparison->differences;
    const struct {
        bool a_allows, b_allows;
    } kinds[] = {{false, true}, {true, false}, {false, false}, {true, true}};
    const char *const headings[] = {"only %s allows", "only %s allows", "neither allows, with other answers",
                                    "both allow, with other answers"};
    for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
        bool begun = false;
        for (size_t i = 0; i < differences->n; i++) {
            const struct policy_difference *row = &differences->rows[i];
            if (row->section != POLICY_SECTION_CALLS || row->a_allows != kinds[k].a_allows ||
                row->b_allows != kinds[k].b_allows || !is_first_of_its_answers(differences, i)) {
                continue;
            }
            if (!begun) {
                buf_puts(ret, "system calls that ");
                buf_printf(ret, k < 2 ? headings[k] : "%s", k < 2 ? comparison->names[k == 0] : headings[k]);
                buf_putc(ret, '\n');
                begun = true;
            }
            put_calls_like(differences, i, ret);
        }
    }
}

static void put_lines(const struct comparison *comparison, struct buf *ret)
{
    const struct policy_differences *differences = &comparison->differences;
    if (differences->n == 0) {
        buf_printf(ret, "%s and %s: no difference\n", comparison->names[0], comparison->names[1]);
        return;
    }
    enum policy_section last = POLICY_SECTION_COUNT;
    for (size_t i = 0; i < differences->n; i++) {
        const struct policy_difference *row = &differences->rows[i];
        if (row->section == POLICY_SECTION_CALLS) {
            break;
        }
        if (row->section != last) {
            buf_printf(ret, "%s\n", sections[row->section].heading);
            last = row->section;
        }
        put_row(row, ret);
    }
    put_calls(comparison, ret);
}

/* ---- JSON ---- */

static void write_row(const struct policy_difference *row, struct buf *ret)
{
    bool call = row->section == POLICY_SECTION_CALLS;
    json_out_separator(ret);
    buf_putc(ret, '{');
    json_out_text(ret, call ? "call" : "name", row->name);
    if (call) {
        json_out_text(ret, "arguments", row->arguments);
        json_out_bool(ret, "a_allows", row->a_allows);
        json_out_bool(ret, "b_allows", row->b_allows);
    }
    json_out_text(ret, "a", row->a);
    json_out_text(ret, "b", row->b);
    buf_putc(ret, '}');
}

static void write_json(const struct comparison *comparison, struct buf *ret)
{
    buf_putc(ret, '{');
    json_out_text(ret, "a", comparison->names[0]);
    json_out_text(ret, "b", comparison->names[1]);
    json_out_bool(ret, "same", comparison->differences.n == 0);
    for (enum policy_section section = 0; section < POLICY_SECTION_COUNT; section++) {
        json_out_open(ret, sections[section].key, '[');
        for (size_t i = 0; i < comparison->differences.n; i++) {
            if (comparison->differences.rows[i].section == section) {
                write_row(&comparison->differences.rows[i], ret);
            }
        }
        buf_putc(ret, ']');
    }
    buf_puts(ret, "}\n");
}

static int compare(struct comparison *comparison, struct err *reterr)
{
    struct policy *policies[2] = {NULL, NULL};
    int r = policy_resolve(comparison->names[0], &policies[0], reterr);
    r = r < 0 ? r : policy_resolve(comparison->names[1], &policies[1], reterr);
    r = r < 0 ? r : policy_compare(policies[0], policies[1], &comparison->differences, reterr);
    policy_free(policies[0]);
    policy_free(policies[1]);
    return r;
}

int policy_diff_main(int argc, char **argv)
{
    struct diff_options options = {0};
    struct err err = {0};
    int n_arguments;
    int r = options_parse(&policy_diff_table, argc, argv, &options, &n_arguments, &err);
    if (r == OPTIONS_HELP) {
        options_print_help(&policy_diff_table, stdout);
        return EXIT_CODE_OK;
    }
    if (r == 0 && n_arguments != 2) {
        r = err_set(&err, ERR_INVALID, 0, NULL,
                    "takes two policies: `immure policy diff NAME|FILE NAME|FILE`");
    }
    if (r < 0) {
        return command_fail("policy diff", &err, EXIT_CODE_USAGE);
    }
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    struct comparison comparison = {.names = {argv[1], argv[2]}};
    r = compare(&comparison, &err);
    bool same = comparison.differences.n == 0;
    if (r == 0) {
        (options.json ? write_json : put_lines)(&comparison, &text);
        r = text.failed ? err_set(&err, ERR_INTERNAL, 0, NULL, "out of memory") : 0;
    }
    policy_differences_clear(&comparison.differences);
    if (r < 0) {
        return command_fail("policy diff", &err, EXIT_CODE_USAGE);
    }
    fputs(text.data, stdout);
    return same ? EXIT_CODE_OK : EXIT_CODE_FAILED;
}
