/* What the checks of lint share. */
#pragma once

#include "config/format/source.h"
#include "config/policy/policy_file.h"
#include "jail/base/buf.h"
#include "policy/lint/lint.h"

struct err;
struct policy;
struct seccomp_rule;
struct text_token;

enum lint_id {
#define RULE(name, id, severity, summary, remedy) LINT_##name,
#include "policy/lint/rules.def"
#undef RULE
};

struct lint {
    char *name; /* of the source */
    struct source source;
    struct source_errors errors;
    struct policy *policy;
    const struct policy_spec *spec; /* the policy's */
    bool failed;
    struct lint_finding *rows;
    size_t n;
    char *text_of; /* the file whose text was read last */
    struct buf text;
};

/* Where a finding is, and about what. */
struct lint_spot {
    char path[SOURCE_PATH_TEXT_MAX]; /* of the field, in the policy as a whole */
    const char *about;               /* NULL: nothing that has a name */
    const char *remedy;              /* NULL: the rule's */
    enum lint_edit edit;
    const char *text;
};

struct lint_spot lint_spot(const char *about, const char *path, ...) __attribute__((format(printf, 2, 3)));
void lint_find(struct lint *lint, enum lint_id id, const struct lint_spot *spot, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* An error of reading or compiling. */
void lint_find_error(struct lint *lint, const struct err *err);
void lint_findings_clear(struct lint *lint);
void lint_finding_clear(struct lint_finding *finding);

/* The token that was noted for a field, in the text of its file; false: there is none, or no text. It points
 * into memory that the next call may free. */
bool lint_token(struct lint *lint, const char *path, struct text_token *ret);
/* The text of a file or of "shipped:NAME"; NULL: it has none. The same holds. */
const struct buf *lint_text(struct lint *lint, const char *file);

void lint_check_files(struct lint *lint);
void lint_check_environment(struct lint *lint);
void lint_check_limits(struct lint *lint);
void lint_check_filter(struct lint *lint);
void lint_check_rules(struct lint *lint);
void lint_check_use(struct lint *lint);
/* Names that are none, in all mounts and rules at once: for a policy that does not compile. */
void lint_check_names(struct lint *lint, const struct policy_spec *spec);

/* What the policy's filter returns for a call, SECCOMP_RET_*; `ret_known` false: there is no such call here.
 */
uint32_t lint_answer(const struct lint *lint, const char *call, const uint64_t arguments[6], bool *ret_known);
bool lint_makes_threads(const struct lint *lint);
bool lint_makes_processes(const struct lint *lint);
/* Whether the interpreter's name begins so. */
bool lint_interprets(const struct lint *lint, const char *name);

/* Follows the policy's symlinks, into `ret` of PATH_MAX bytes; false: they lead in a circle. */
bool lint_follow(const struct policy_spec *spec, const char *path, char *ret);
/* Whether the jail shows something at `path`, links of the policy followed, as far as can be known. */
bool lint_shows(const struct lint *lint, const char *path);
/* The same, and it can be written there. */
bool lint_is_writable(const struct lint *lint, const char *path);
