/* From what a program did to a short policy under which it can do it again. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct err;
struct observed;
struct policy;

/* A policy that uses others, to which a learned one adds. */
struct learn_parent {
    const char *use; /* as it stands in `use: [...]`: "\"debian\", \"scratch\"" */
    struct policy *policy;
};

/* The parents that are tried, those that give less first; NULL: no more. */
const char *learn_candidate(size_t index);
/* The policy that is nothing but what it uses, which has to be shipped. */
int learn_parent_make(const char *use, struct policy **ret, struct err *reterr);
/* The index of the one that leaves least to add. One that shows an interpreter is for programs that run it.
 */
int learn_choose(const struct observed *observed, const struct learn_parent *parents, size_t n_parents,
                 size_t *ret, struct err *reterr);

struct learn_about {
    const char *name;
    const char *program; /* its arguments may have secrets in them */
    size_t runs;
    bool names_cwd;   /* an argument has the whole path of the working directory in it */
    char *const *env; /* NAME=VALUE that the policy sets; ends with NULL */
    char *const
        *left_out; /* names of variables that the caller had and the program was not given; the same */
};

/* Whether the program made a call of that name. */
bool learn_saw(const struct observed *observed, const char *call);
/* Before observed_sort(): marks what no mount may show (PATH_SECRET), also what lies unread in directories
 * that would be mounted. Looks at files. */
void learn_find_secrets(struct observed *observed);

/* Appends the policy. `observed` is sorted. */
int learn_write(const struct observed *observed, const struct learn_parent *parent,
                const struct learn_about *about, struct buf *ret, struct err *reterr);
/* Appends a line "NAME=FILE" for each file of the working directory that the policy takes to be given. */
void learn_files(const struct observed *observed, struct buf *ret);
