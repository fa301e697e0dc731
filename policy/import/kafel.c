/* Kafel, the language for filters that nsjail has: constants, policies and what they use, actions with the
 * calls that they are about, and conditions in C's words. Runs in the command line.
 *
 * The first rule that holds decides, in the order in which they are used. Includes lie beside the file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "policy/filter/names.h"
#include "policy/import/clauses.h"
#include "policy/import/draft.h"
#include "policy/import/formats.h"
#include "policy/import/import.h"
#include "policy/import/kafel.h"

#define NAMES_MAX    4000u
#define INCLUDES_MAX 16u

static const char *take_name(struct kafel *kafel)
{
    return draft_text(kafel->draft, kafel->token, kafel->length);
}

static int add_name(struct kafel *kafel, struct kafel_names *names, struct kafel_name row, struct err *reterr)
{
    struct kafel_name *rows =
        names->n < NAMES_MAX ? reallocarray(names->rows, names->n + 1, sizeof row) : NULL;
    if (!rows) {
        return kafel_fail(kafel, reterr, "fewer names are expected");
    }
    names->rows = rows;
    names->rows[names->n++] = row;
    return 0;
}

static int read_number(struct kafel *kafel, uint64_t max, uint64_t *ret, struct err *reterr)
{
    if (!kafel_constant(kafel, ret) || *ret > max) {
        return kafel_fail(kafel, reterr, "a number is expected");
    }
    return kafel_next(kafel, reterr);
}

static int read_action(struct kafel *kafel, struct verdict *ret, struct err *reterr)
{
    static const struct {
        const char *word;
        enum seccomp_action_kind kind;
        bool number;
        const char *note;
    } rows[] = {
        {"ALLOW", ACTION_ALLOW, false, NULL},
        {"LOG", ACTION_LOG, false, NULL},
        {"KILL_PROCESS", ACTION_KILL_PROCESS, false, NULL},
        {"KILL", ACTION_KILL_PROCESS, false, "ends the whole program, not a thread (KILL_PROCESS)"},
        {"KILL_THREAD", ACTION_KILL_PROCESS, false, "ends the whole program, not a thread (KILL_PROCESS)"},
        {"DENY", ACTION_KILL_PROCESS, false, "ends the whole program, not a thread (KILL_PROCESS)"},
        {"USER_NOTIF", ACTION_NOTIFY, false, "nobody of the source's listens: NOTIFY, EPERM and named"},
        {"ERRNO", ACTION_ERRNO, true, NULL},
        {"TRAP", ACTION_KILL_PROCESS, true, "no signal that could be handled: KILL_PROCESS"},
        {"TRACE", ACTION_ERRNO, true, "nobody traces: ERRNO ENOSYS, as without a tracer"},
    };
    size_t i = 0;
    uint64_t code = 0;
    while (i < ARRAY_SIZE(rows) && !kafel_is(kafel, rows[i].word)) {
        i++;
    }
    if (i == ARRAY_SIZE(rows)) {
        return kafel_fail(kafel, reterr, "an action (ALLOW, DENY, ERRNO(1), KILL, LOG, TRAP(1)) is expected");
    }
    if (rows[i].note) {
        draft_note(kafel->draft, rows[i].note, "%s", rows[i].word);
    }
    int r = kafel_next(kafel, reterr);
    if (r == 0 && rows[i].number) {
        r = kafel_expect(kafel, "(", reterr);
        r = r < 0 ? r : read_number(kafel, 0xffff, &code, reterr);
        r = r < 0 ? r : kafel_expect(kafel, ")", reterr);
    }
    if (r == 0 && rows[i].kind == ACTION_ERRNO && !rows[i].note && (code == 0 || code > 4095)) {
        draft_note(kafel->draft, "cannot be answered; it is EPERM", "ERRNO(%u)", (unsigned)code);
        code = EPERM;
    }
    *ret = (struct verdict){.kind = rows[i].kind, .code = rows[i].note ? ENOSYS : (uint32_t)code};
    return r;
}

/* The kernel's own names for the functions of some calls, which Kafel has. */
static const char *call_name(struct kafel *kafel, const char *name)
{
    static const char *const rows[][2] = {
        {"newstat", "stat"},   {"newfstat", "fstat"},        {"newlstat", "lstat"},
        {"newuname", "uname"}, {"sendfile64", "sendfile"},   {"umount", "umount2"},
        {"pread", "pread64"},  {"pwrite", "pwrite64"},       {"prlimit", "prlimit64"},
        {"sysctl", "_sysctl"}, {"fadvise64_64", "fadvise64"}};
    uint64_t number;
    const struct kafel_name *row = kafel_find(&kafel->constants, name, strlen(name));
    if (row) {
        number = row->value;
        char buffer[64];
        const char *real = policy_syscall_name(policy_native_arch(), number < 100000 ? (int)number : -1,
                                               buffer, sizeof buffer);
        return draft_printf(kafel->draft, "%s", real);
    }
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (strcmp(rows[i][0], name) == 0 && policy_syscall_number(name, NULL) < 0) {
            return rows[i][1];
        }
    }
    return name;
}

static int read_call_name(struct kafel *kafel, const char **ret, struct err *reterr)
{
    uint64_t number;
    char buffer[64];
    int r = kafel_accept(kafel, "SYSCALL", reterr);
    if (r < 0) {
        return r;
    }
    if (r == 0) {
        if (!kafel_is_name(kafel)) {
            return kafel_fail(kafel, reterr, "the name of a system call is expected");
        }
        *ret = call_name(kafel, take_name(kafel));
        return kafel_next(kafel, reterr);
    }
    r = kafel_expect(kafel, "[", reterr);
    r = r < 0 ? r : read_number(kafel, UINT64_MAX, &number, reterr);
    if (r < 0) {
        return r;
    }
    *ret = draft_printf(
        kafel->draft, "%s",
        policy_syscall_name(policy_native_arch(), number < 100000 ? (int)number : -1, buffer, sizeof buffer));
    return kafel_expect(kafel, "]", reterr);
}

/* "(fd, buf)" behind a call: names for its arguments. */
static int read_arguments(struct kafel *kafel, struct err *reterr)
{
    kafel->n_arguments = 0;
    int r = kafel_accept(kafel, "(", reterr);
    if (r <= 0) {
        return r;
    }
    while (!kafel_is(kafel, ")")) {
        if (!kafel_is_name(kafel) || kafel->n_arguments == 6) {
            return kafel_fail(kafel, reterr, "a name for an argument, six at most, is expected");
        }
        kafel->arguments[kafel->n_arguments++] = take_name(kafel);
        r = kafel_next(kafel, reterr);
        r = r < 0 || kafel_is(kafel, ")") ? r : kafel_expect(kafel, ",", reterr);
        if (r < 0) {
            return r;
        }
    }
    return kafel_next(kafel, reterr);
}

/* "ON x86_64" or "ON { x86_64, aarch64 }": whether it is for this machine. */
static int read_architectures(struct kafel *kafel, bool *ret_here, struct err *reterr)
{
    *ret_here = true;
    int r = kafel_accept(kafel, "ON", reterr);
    if (r <= 0) {
        return r;
    }
    int list = kafel_accept(kafel, "{", reterr);
    *ret_here = false;
    do {
        if (list < 0 || !kafel_is_name(kafel)) {
            return list < 0 ? list : kafel_fail(kafel, reterr, "an architecture is expected");
        }
        *ret_here |= kafel_is(kafel, policy_native_architecture());
        r = kafel_next(kafel, reterr);
        r = r < 0 || !list ? r : kafel_accept(kafel, ",", reterr);
    } while (r > 0);
    return r < 0 || !list ? r : kafel_expect(kafel, "}", reterr);
}

static int read_call(struct kafel *kafel, struct verdict verdict, struct err *reterr)
{
    bool here = true;
    CLEANUP(freep) struct clauses *when = NULL;
    int r = read_call_name(kafel, &kafel->call, reterr);
    r = r < 0 ? r : read_arguments(kafel, reterr);
    r = r < 0 ? r : read_architectures(kafel, &here, reterr);
    r = r < 0 ? r : kafel_accept(kafel, "{", reterr);
    if (r > 0) {
        r = kafel_is(kafel, "}") ? 0 : kafel_condition(kafel, &when, reterr);
        r = r < 0 ? r : kafel_expect(kafel, "}", reterr);
    }
    if (r < 0) {
        return r;
    }
    if (here) {
        draft_rule(kafel->draft, kafel->call, verdict, when);
    } else {
        draft_note(kafel->draft, "for another architecture", "%s ON ...", kafel->call);
    }
    return 0;
}

static int read_calls(struct kafel *kafel, struct verdict verdict, struct err *reterr)
{
    int r = kafel_expect(kafel, "{", reterr);
    while (r == 0 && !kafel_is(kafel, "}")) {
        r = read_call(kafel, verdict, reterr);
        r = r < 0 || kafel_is(kafel, "}") ? r : kafel_expect(kafel, ",", reterr);
    }
    return r < 0 ? r : kafel_next(kafel, reterr);
}

static int use(struct kafel *kafel, struct err *reterr)
{
    const struct kafel_name *policy = kafel_find(&kafel->policies, kafel->token, kafel->length);
    if (!policy) {
        return kafel_fail(kafel, reterr, "the name of a policy above is expected");
    }
    for (size_t i = 0; i < policy->n_rules && !kafel->draft->too_many; i++) {
        draft_repeat(kafel->draft, policy->rules[i]);
    }
    return kafel_next(kafel, reterr);
}

/* "USE name" or an action with its calls. */
static int read_statement(struct kafel *kafel, struct err *reterr)
{
    struct verdict verdict;
    int r = kafel_accept(kafel, "USE", reterr);
    if (r != 0) {
        return r < 0 ? r : use(kafel, reterr);
    }
    r = read_action(kafel, &verdict, reterr);
    return r < 0 ? r : read_calls(kafel, verdict, reterr);
}

/* Its rules are read as the draft's own, and put aside. */
static int read_policy(struct kafel *kafel, struct err *reterr)
{
    if (!kafel_is_name(kafel) || kafel_find(&kafel->policies, kafel->token, kafel->length)) {
        return kafel_fail(kafel, reterr, "a new name for a policy is expected");
    }
    struct draft *draft = kafel->draft;
    struct kafel_name policy = {.name = take_name(kafel)};
    size_t before = draft->n_rules;
    int r = kafel_next(kafel, reterr);
    r = r < 0 ? r : kafel_expect(kafel, "{", reterr);
    while (r == 0 && !kafel_is(kafel, "}")) {
        r = read_statement(kafel, reterr);
        r = r < 0 || !kafel_is(kafel, ",") ? r : kafel_next(kafel, reterr);
    }
    policy.n_rules = draft->n_rules - before;
    if (r == 0 && policy.n_rules > 0) {
        policy.rules = draft_alloc(draft, policy.n_rules * sizeof *policy.rules);
        policy.n_rules = policy.rules ? policy.n_rules : 0;
        memcpy(policy.rules ? policy.rules : draft->rules + before, draft->rules + before,
               policy.n_rules * sizeof *policy.rules);
    }
    draft->n_rules = before;
    r = r < 0 ? r : kafel_next(kafel, reterr);
    return r < 0 ? r : add_name(kafel, &kafel->policies, policy, reterr);
}

static int read_define(struct kafel *kafel, struct err *reterr)
{
    if (!kafel_is_name(kafel)) {
        return kafel_fail(kafel, reterr, "the name of a constant is expected");
    }
    struct kafel_name constant = {.name = take_name(kafel)};
    const struct kafel_name *before = kafel_find(&kafel->constants, kafel->token, kafel->length);
    int r = kafel_next(kafel, reterr);
    r = r < 0 ? r : read_number(kafel, UINT64_MAX, &constant.value, reterr);
    if (r == 0 && before && before->value != constant.value) {
        return kafel_fail(kafel, reterr, "the same value as before is expected");
    }
    return r < 0 || before ? r : add_name(kafel, &kafel->constants, constant, reterr);
}

static int read_all(struct kafel *kafel, struct err *reterr);

/* #include "file" ["file" ...] [;] */
static int read_include(struct kafel *kafel, struct err *reterr)
{
    if (kafel->length < 3 || *kafel->token != '"') {
        return kafel_fail(kafel, reterr, "the name of a file, in quotes, is expected");
    }
    while (kafel->length > 2 && *kafel->token == '"') {
        if (++kafel->n_includes > INCLUDES_MAX) {
            return import_fail(kafel->from.file, kafel->line, reterr, "includes more than %u files",
                               INCLUDES_MAX);
        }
        struct kafel outer = *kafel;
        struct import_text text;
        const char *name = draft_text(kafel->draft, kafel->token + 1, kafel->length - 2);
        int r = import_include(kafel->draft, &kafel->from, kafel->line, name, &text, reterr);
        if (r < 0) {
            return r;
        }
        kafel->from = text;
        kafel->pos = text.text;
        kafel->at_line = 1;
        r = read_all(kafel, reterr);
        kafel->from = outer.from;
        kafel->pos = outer.pos;
        kafel->at_line = outer.at_line;
        r = r < 0 ? r : kafel_next(kafel, reterr);
        if (r < 0) {
            return r;
        }
    }
    int r = kafel_accept(kafel, ";", reterr);
    return r < 0 ? r : 0;
}

static int read_directive(struct kafel *kafel, struct err *reterr)
{
    int r = kafel_next(kafel, reterr);
    if (r == 0 && kafel_is(kafel, "include")) {
        r = kafel_next(kafel, reterr);
        return r < 0 ? r : read_include(kafel, reterr);
    }
    r = r < 0 ? r : kafel_expect(kafel, "define", reterr);
    return r < 0 ? r : read_define(kafel, reterr);
}

static int read_default(struct kafel *kafel, struct err *reterr)
{
    if (kafel->has_default) {
        return kafel_fail(kafel, reterr, "one DEFAULT is expected, and no other");
    }
    kafel->has_default = true;
    return read_action(kafel, &kafel->draft->otherwise, reterr);
}

static int read_all(struct kafel *kafel, struct err *reterr)
{
    int r = kafel_next(kafel, reterr);
    while (r >= 0 && kafel->length > 0) {
        int (*read)(struct kafel *, struct err *) = kafel_is(kafel, "DEFAULT")  ? read_default
                                                    : kafel_is(kafel, "POLICY") ? read_policy
                                                                                : NULL;
        if (kafel_is(kafel, "#")) {
            r = read_directive(kafel, reterr);
        } else if (kafel_is(kafel, ",")) {
            r = kafel_next(kafel, reterr);
        } else if (read) {
            r = kafel_next(kafel, reterr);
            r = r < 0 ? r : read(kafel, reterr);
        } else {
            r = read_statement(kafel, reterr);
        }
    }
    return r;
}

int import_kafel(struct draft *draft, const struct import_text *text, struct err *reterr)
{
    struct kafel kafel = {.draft = draft, .from = *text, .pos = text->text, .at_line = text->line};
    draft->otherwise = (struct verdict){.kind = ACTION_KILL_PROCESS};
    int r = read_all(&kafel, reterr);
    free(kafel.constants.rows);
    free(kafel.policies.rows);
    return r;
}
