/* Command line options as a table: one row each, which yields the parser and the help text. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct err;

enum option_kind {
    OPTION_SWITCH, /* bool */
    OPTION_TEXT,   /* const char * */
    OPTION_NUMBER, /* uint64_t, a whole decimal number from 1 up; 0 where it is not given */
    OPTION_BYTES,  /* the same with a unit if need be: "1GiB" */
    OPTION_MS,     /* the same: "5s"; a bare number is milliseconds */
    OPTION_LIST,   /* struct option_list; the option may be given again and again */
};

#define OPTION_LIST_MAX 1024
struct option_list {
    const char *items[OPTION_LIST_MAX];
    size_t n;
};

struct option_row {
    const char *name;  /* "--policy" */
    const char *value; /* what the help calls its value; NULL for a switch */
    const char *help;
    enum option_kind kind;
    size_t offset; /* of the member in the command's own struct */
};

struct option_table {
    const char *command; /* "run" */
    const char
        *synopsis; /* what follows the command: "--policy NAME|FILE [OPTION...] -- COMMAND [ARGUMENT...]" */
    const char *about;    /* one paragraph or more */
    const char *footer;   /* exit codes; NULL: none */
    const char *examples; /* one to three, a line each */
    const struct option_row *rows;
    size_t n_rows;
    bool stop_at_argument; /* the first argument that is no option ends the options */
};

/* Fills the struct at `target` through the rows. The arguments that are no options are moved, in order, to
 * argv[1] and up, and counted in `*ret_n_arguments`. Returns 0, OPTIONS_HELP where --help is among the
 * options, or ERR_INVALID. */
#define OPTIONS_HELP 1
int options_parse(const struct option_table *table, int argc, char **argv, void *target, int *ret_n_arguments,
                  struct err *reterr);

void options_print_help(const struct option_table *table, FILE *to);
