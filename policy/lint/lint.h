/* `immure policy lint`: what is wrong with a policy, and what it says that its author may not have meant. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct err;
struct lint;
struct policy;

enum lint_severity {
    LINT_ERROR,   /* the policy cannot be loaded */
    LINT_WARNING, /* most likely not meant */
    LINT_ADVICE,  /* could be tighter, or clearer */
};

struct lint_rule {
    const char *id; /* stable: "bind-missing" */
    enum lint_severity severity;
    const char *summary; /* one line for the manual page */
    const char *remedy;  /* what to do, unless the finding says so itself */
};

/* All of them in turn; NULL: no more. */
const struct lint_rule *lint_rule_row(size_t index);

/* What `--fix` does at the place of a finding. */
enum lint_edit { LINT_EDIT_NONE, LINT_EDIT_REPLACE, LINT_EDIT_REMOVE };

struct lint_finding {
    const struct lint_rule *rule;
    char *file;
    unsigned line, column; /* from 1; 0: not known */
    char *field;           /* as that file calls it; "": the whole file */
    char *about;           /* what a waiver can name; NULL: nothing */
    char *message, *fix;
    enum lint_edit edit;
    char *text; /* for LINT_EDIT_REPLACE */
};

/* Reads a shipped policy by its name, or a file (a path with a '/', or an extension). What is wrong with it
 * is found, not failed with. */
int lint_open(const char *name_or_path, struct lint **ret, struct err *reterr);
void lint_free(struct lint *lint);
/* To be completed with its interpreter (server/host/interpreter.h); NULL: it is not valid. */
struct policy *lint_policy(struct lint *lint);
/* Looks for everything; `strict`: for advice too. After it the findings are in the order of the files. */
int lint_run(struct lint *lint, bool strict, struct err *reterr);

size_t lint_count(const struct lint *lint);
const struct lint_finding *lint_at(const struct lint *lint, size_t index);

/* Corrects, in the file itself, what has one answer, and writes it anew as a whole, unless the policy would
 * then have another filter. Others that it uses are left alone. `*ret_n`: how many findings. ERR_INVALID: it
 * is not a text file. */
int lint_fix(struct lint *lint, size_t *ret_n, struct err *reterr);

/* "FILE:LINE:COLUMN: field: what is wrong; what to do [rule]". */
void lint_print_finding(const struct lint_finding *finding, struct buf *ret);
/* One JSON object; `policy`: the name that was asked for. */
void lint_print_json(const char *policy, const struct lint_finding *finding, struct buf *ret);
/* The rules, a line each. */
void lint_print_rules(struct buf *ret);
