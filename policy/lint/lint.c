/* Lint of one policy: reading it, running every check, and what its author has waived. On the command line
 * alone. */
#include "policy/lint/lint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/suggest.h"
#include "config/shipped.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "policy/lint/lint_internal.h"
#include "policy/policy.h"

void lint_free(struct lint *lint)
{
    if (lint) {
        lint_findings_clear(lint);
        policy_free(lint->policy);
        source_free(&lint->source);
        source_errors_clear(&lint->errors);
        buf_free(&lint->text);
        free(lint->text_of);
        free(lint->name);
        free(lint);
    }
}

static void lint_freep(struct lint **lint)
{
    lint_free(*lint);
}

static int read_policy(struct lint *lint, const struct shipped_file *shipped, struct policy_spec **ret,
                       struct err *reterr)
{
    struct err err = {0};
    int r = policy_spec_read(&lint->source, shipped ? shipped->data : NULL, shipped ? shipped->size : 0, ret,
                             &err);
    for (size_t i = 0; i < lint->errors.n; i++) {
        lint_find_error(lint, &lint->errors.rows[i]);
    }
    if (r < 0 && err.kind != ERR_NONE && err.kind != ERR_CONFIG) {
        *reterr = err;
        return r;
    }
    if (r < 0 && err.kind == ERR_CONFIG) {
        lint_find_error(lint, &err);
    }
    return 0;
}

/* A policy that does not compile because a field was not understood is not told of twice. */
static int compile(struct lint *lint, struct policy_spec *spec, struct err *reterr)
{
    struct err err = {0};
    size_t before = lint->n;
    lint_check_names(lint, spec);
    int r = policy_compile(spec, &lint->policy, &err);
    if (r < 0 && err.kind != ERR_CONFIG) {
        *reterr = err;
        return r;
    }
    if (r < 0 && lint->n == before && lint->errors.n == 0) {
        lint_find_error(lint, &err);
    }
    return 0;
}

static int find_shipped(const char *name, const struct shipped_file **ret, struct err *reterr)
{
    /* For a file whatever becomes of it; for a name the sentence that there is none. */
    struct buf text = BUF_INIT;
    *ret = shipped_policy(name);
    *ret = *ret ? *ret : shipped_part(name);
    int r = *ret ? 0 : policy_show(name, false, &text, reterr);
    buf_free(&text);
    return r;
}

int lint_open(const char *name_or_path, struct lint **ret, struct err *reterr)
{
    CLEANUP(lint_freep) struct lint *lint = calloc(1, sizeof *lint);
    const struct shipped_file *shipped = NULL;
    struct policy_spec *spec = NULL;
    bool is_path = strchr(name_or_path, '/'), is_file = is_path || strchr(name_or_path, '.');
    int r = is_file ? 0 : find_shipped(name_or_path, &shipped, reterr);
    if (r < 0) {
        return r;
    }
    const char *before = shipped ? "shipped:" : is_path ? "" : "./";
    if (!lint || asprintf(&lint->name, "%s%s", before, name_or_path) < 0) {
        return err_errno(reterr, ENOMEM, "while reading %s", name_or_path);
    }
    lint->source = (struct source){.name = lint->name, .errors = &lint->errors};
    r = read_policy(lint, shipped, &spec, reterr);
    r = r < 0 || !spec ? r : compile(lint, spec, reterr);
    if (r < 0) {
        return r;
    }
    lint->spec = lint->policy ? policy_spec(lint->policy) : NULL;
    *ret = TAKE_PTR(lint);
    return 0;
}

struct policy *lint_policy(struct lint *lint)
{
    return lint->policy;
}

size_t lint_count(const struct lint *lint)
{
    return lint->n;
}

const struct lint_finding *lint_at(const struct lint *lint, size_t index)
{
    return &lint->rows[index];
}

static void check_waiver(struct lint *lint, size_t index)
{
    const struct policy_waiver *waiver = &lint->spec->waivers[index];
    struct suggestion suggestion = SUGGESTION_FOR(waiver->rule, strlen(waiver->rule));
    char near[SUGGESTION_TEXT_MAX];
    bool known = false;
    const struct lint_rule *rule;
    for (size_t i = 0; (rule = lint_rule_row(i)); i++) {
        known |= strcmp(rule->id, waiver->rule) == 0;
        suggestion_offer(&suggestion, rule->id);
    }
    struct lint_spot spot = lint_spot(waiver->rule, "lint_waive[%zu].rule", index);
    if (!known) {
        lint_find(lint, LINT_WAIVER, &spot, "no rule is called \"%s\"%s", waiver->rule,
                  suggestion_text(&suggestion, "", near));
    } else if (!waiver->reason || !*waiver->reason) {
        lint_find(lint, LINT_WAIVER, &spot, "waives %s without a reason", waiver->rule);
    }
}

static bool waives(const struct policy_waiver *waiver, const struct lint_finding *finding)
{
    bool is_waiver = finding->rule == lint_rule_row(LINT_WAIVER) || finding->rule->severity == LINT_ERROR;
    return !is_waiver && waiver->reason && *waiver->reason && strcmp(waiver->rule, finding->rule->id) == 0 &&
           (!waiver->about || (finding->about && strcmp(waiver->about, finding->about) == 0));
}

/* Takes the findings away that a waiver is about; false: there are none. */
static bool waive(struct lint *lint, const struct policy_waiver *waiver)
{
    size_t kept = 0, n = lint->n;
    for (size_t i = 0; i < n; i++) {
        if (waives(waiver, &lint->rows[i])) {
            lint_finding_clear(&lint->rows[i]);
        } else {
            lint->rows[kept++] = lint->rows[i];
        }
    }
    lint->n = kept;
    return kept < n;
}

/* Advice is looked for, for the waivers of it, also where nobody asked for it. One that was inherited may be
 * about what has been left out. */
static void check_waivers(struct lint *lint, bool strict)
{
    for (size_t i = 0; i < lint->spec->n_waivers; i++) {
        const struct policy_waiver *waiver = &lint->spec->waivers[i];
        struct lint_spot spot = lint_spot(waiver->rule, "lint_waive[%zu]", i);
        size_t before = lint->n;
        check_waiver(lint, i);
        bool good = lint->n == before, own = source_position(&lint->source, spot.path).file == 0;
        if (!waive(lint, waiver) && good && own) {
            lint_find(lint, LINT_WAIVER, &spot, "waives %s%s%s, which is not found", waiver->rule,
                      waiver->about ? " about " : "", waiver->about ? waiver->about : "");
        }
    }
    size_t kept = 0;
    for (size_t i = 0; i < lint->n; i++) {
        if (lint->rows[i].rule->severity == LINT_ADVICE && !strict) {
            lint_finding_clear(&lint->rows[i]);
        } else {
            lint->rows[kept++] = lint->rows[i];
        }
    }
    lint->n = kept;
}

/* The file itself first, then those that it uses. */
static int compare(const void *a, const void *b, void *own_file)
{
    const struct lint_finding *x = a, *y = b;
    int files = strcmp(x->file, y->file);
    if (files != 0) {
        return strcmp(x->file, own_file) == 0 ? -1 : strcmp(y->file, own_file) == 0 ? 1 : files;
    }
    if (x->line != y->line) {
        return x->line < y->line ? -1 : 1;
    }
    return x->column != y->column ? (x->column < y->column ? -1 : 1) : strcmp(x->rule->id, y->rule->id);
}

int lint_run(struct lint *lint, bool strict, struct err *reterr)
{
    static void (*const checks[])(struct lint *) = {
        lint_check_files,  lint_check_environment, lint_check_limits,
        lint_check_filter, lint_check_rules,       lint_check_use,
    };
    for (size_t i = 0; lint->policy && i < ARRAY_SIZE(checks); i++) {
        checks[i](lint);
    }
    if (lint->policy) {
        check_waivers(lint, strict);
    }
    if (lint->failed) {
        return err_errno(reterr, ENOMEM, "while looking at %s", lint->name);
    }
    if (lint->n > 0) {
        qsort_r(lint->rows, lint->n, sizeof *lint->rows, compare, lint->name);
    }
    return 0;
}
