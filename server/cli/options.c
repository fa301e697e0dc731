/* The option parser of every sub-command. It runs before anything else has happened, prints nothing and exits
 * nowhere; what it refuses it refuses by name, with the nearest option that exists. */
#include "server/cli/options.h"

#include <errno.h>
#include <string.h>

#include "config/format/amount.h"
#include "config/format/textformat.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"

#define OPTION_ROWS_MAX 32

static int unknown_option(const struct option_table *table, const char *name, struct err *reterr)
{
    const char *names[OPTION_ROWS_MAX + 1];
    size_t n = 0;
    for (size_t i = 0; i < table->n_rows && n < OPTION_ROWS_MAX; i++) {
        names[n++] = table->rows[i].name;
    }
    names[n++] = "--help";
    const char *nearest = textformat_did_you_mean(name, names, n);
    return err_set(reterr, ERR_INVALID, EINVAL, name,
                   nearest ? "no such option; did you mean %s?" : "no such option%s", nearest ? nearest : "");
}

/* 0 is how a command's own struct says that the option was not given. */
static int store_number(const struct option_row *row, const char *value, uint64_t *ret, struct err *reterr)
{
    const char *field = row->kind == OPTION_BYTES ? "_bytes" : row->kind == OPTION_MS ? "_ms" : "";
    const char *unit = row->kind == OPTION_BYTES ? ", with a unit if need be (512MiB, 1GiB)"
                       : row->kind == OPTION_MS  ? ", with a unit if need be (500ms, 5s, 2m)"
                                                 : "";
    uint64_t number = 0;
    if (amount_parse(field, value, strlen(value), &number) || number == 0) {
        return err_set(reterr, ERR_INVALID, EINVAL, row->name, "'%s' is not a whole number from 1 up%s",
                       value, unit);
    }
    *ret = number;
    return 0;
}

static int store(const struct option_row *row, const char *value, void *target, struct err *reterr)
{
    char *member = (char *)target + row->offset;
    switch (row->kind) {
    case OPTION_SWITCH:
        *(bool *)member = true;
        return 0;
    case OPTION_TEXT:
        *(const char **)member = value;
        return 0;
    case OPTION_NUMBER:
    case OPTION_BYTES:
    case OPTION_MS:
        return store_number(row, value, (uint64_t *)member, reterr);
    case OPTION_LIST: {
        struct option_list *list = (struct option_list *)member;
        if (list->n == OPTION_LIST_MAX) {
            return err_set(reterr, ERR_INVALID, E2BIG, row->name, "given more than %d times",
                           OPTION_LIST_MAX);
        }
        list->items[list->n++] = value;
        return 0;
    }
    }
    return err_set(reterr, ERR_INTERNAL, EINVAL, row->name, "an option of no known kind");
}

static const struct option_row *find_row(const struct option_table *table, const char *name, size_t length)
{
    for (size_t i = 0; i < table->n_rows; i++) {
        if (strlen(table->rows[i].name) == length && memcmp(table->rows[i].name, name, length) == 0) {
            return &table->rows[i];
        }
    }
    return NULL;
}

/* Handles the option at argv[*at], and its value if that is the next argument; `*at` ends on the last one
 * used. */
static int parse_option(const struct option_table *table, int argc, char **argv, int *at, void *target,
                        struct err *reterr)
{
    const char *text = argv[*at];
    size_t length = strcspn(text, "=");
    const char *value = text[length] == '=' ? text + length + 1 : NULL;
    if (strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0) {
        return OPTIONS_HELP;
    }
    const struct option_row *row = find_row(table, text, length);
    if (!row) {
        return unknown_option(table, text, reterr);
    }
    if (row->kind == OPTION_SWITCH && value) {
        return err_set(reterr, ERR_INVALID, EINVAL, row->name, "takes no value");
    }
    if (row->kind != OPTION_SWITCH && !value) {
        if (*at + 1 >= argc) {
            return err_set(reterr, ERR_INVALID, EINVAL, row->name, "needs a value: %s", row->value);
        }
        value = argv[++*at];
    }
    return store(row, value, target, reterr);
}

int options_parse(const struct option_table *table, int argc, char **argv, void *target, int *ret_n_arguments,
                  struct err *reterr)
{
    int n_arguments = 0;
    bool only_arguments = false;
    for (int i = 1; i < argc; i++) {
        if (only_arguments || argv[i][0] != '-' || argv[i][1] == '\0') {
            only_arguments = only_arguments || table->stop_at_argument;
            argv[++n_arguments] = argv[i];
        } else if (strcmp(argv[i], "--") == 0) {
            only_arguments = true;
        } else {
            int r = parse_option(table, argc, argv, &i, target, reterr);
            if (r != 0) {
                return r;
            }
        }
    }
    *ret_n_arguments = n_arguments;
    return 0;
}

/* Prints `text` in lines of at most `width` columns, the second and later ones indented. */
static void print_folded(FILE *to, const char *text, int indent, int width)
{
    int column = indent;
    while (*text) {
        size_t word = strcspn(text, " ");
        if (column > indent && column + (int)word + 1 > width) {
            fprintf(to, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', to);
            column++;
        }
        fwrite(text, 1, word, to);
        column += (int)word;
        text += word + strspn(text + word, " ");
    }
    fputc('\n', to);
}

void options_print_help(const struct option_table *table, FILE *to)
{
    enum { HELP_COLUMN = 28, HELP_WIDTH = 100 };
    fprintf(to, "usage: immure %s %s\n\n%s\n\noptions:\n", table->command, table->synopsis, table->about);
    for (size_t i = 0; i < table->n_rows; i++) {
        const struct option_row *row = &table->rows[i];
        int printed = fprintf(to, "  %s%s%s", row->name, row->value ? " " : "", row->value ? row->value : "");
        if (printed >= HELP_COLUMN) {
            fprintf(to, "\n%*s", HELP_COLUMN, "");
        } else {
            fprintf(to, "%*s", HELP_COLUMN - printed, "");
        }
        print_folded(to, row->help, HELP_COLUMN, HELP_WIDTH);
    }
    fprintf(to, "  %-*s%s\n", HELP_COLUMN - 2, "--help", "print this");
    if (table->footer) {
        fprintf(to, "\n%s\n", table->footer);
    }
    if (table->examples) {
        fputs("\nexamples:\n", to);
    }
    for (const char *line = table->examples; line && *line; line += strspn(line, "\n")) {
        int length = (int)strcspn(line, "\n");
        fprintf(to, "  %.*s\n", length, line);
        line += length;
    }
}
