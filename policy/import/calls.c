/* System calls: the rules that were read, in the order in which they decide, become rules of which no two
 * with different actions can both hold. Runs in the command line.
 *
 * Where the source allows whatever it does not deny, our own allow-list (the parts "processes" and "sockets")
 * takes that place: its rules come behind those of the source. What the source says about a call replaces
 * what the parts say. A condition that cannot be said exactly is narrowed: not allowed, or denied whole. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "policy/filter/filter.h"
#include "policy/filter/names.h"
#include "policy/filter/syscall_sets.h"
#include "policy/import/calls.h"
#include "policy/import/clauses.h"
#include "policy/import/draft.h"
#include "policy/import/import.h"
#include "policy/import/libc_calls.h"

#define VERDICTS_MAX  8
#define SET_CALLS_MIN 3u

/* A call with one verdict, whatever its arguments. */
struct plain_call {
    const char *call;
    struct verdict verdict;
    bool in_set;
};

struct writer {
    struct draft *draft;
    struct buf *without;
    struct buf conditional; /* rules with conditions */
    const struct policy_spec *base;
    struct policy_filter filter; /* of the base */
    struct plain_call *plain;
    size_t n_plain;
    bool launches; /* some rule allows execve */
};

/* What becomes of one call: disjoint conditions, one for each verdict. */
struct outcome {
    struct verdict verdicts[VERDICTS_MAX];
    struct clauses *when[VERDICTS_MAX];
    size_t n;
    struct clauses *rest; /* not decided yet */
    bool failed;
};

static bool allows(struct verdict verdict)
{
    return verdict.kind == ACTION_ALLOW || verdict.kind == ACTION_LOG || verdict.kind == ACTION_COUNT;
}

static bool same(struct verdict a, struct verdict b)
{
    return a.kind == b.kind && (a.kind != ACTION_ERRNO || a.code == b.code);
}

/* Of what neither the source nor the parts decide. */
static struct verdict last_resort(const struct draft *draft)
{
    if (allows(draft->otherwise)) {
        return (struct verdict){.kind = ACTION_NOTIFY};
    }
    return draft->otherwise;
}

const char *calls_parts(const struct draft *draft)
{
    bool most = allows(draft->otherwise);
    if (draft->host_files) {
        return most ? "\"debian\", \"scratch\", \"limits\", \"processes\", \"sockets\""
                    : "\"debian\", \"scratch\", \"limits\"";
    }
    return most ? "\"processes\", \"sockets\"" : "\"libc\"";
}

static void outcome_clear(struct outcome *outcome)
{
    for (size_t i = 0; i < outcome->n; i++) {
        free(outcome->when[i]);
    }
    free(outcome->rest);
}

static struct clauses *new_clauses(struct outcome *outcome, bool always)
{
    struct clauses *ret = malloc(sizeof *ret);
    outcome->failed |= !ret;
    if (ret) {
        clauses_set(ret, always);
    }
    return ret;
}

static struct clauses *verdict_clauses(struct outcome *outcome, struct verdict verdict)
{
    for (size_t i = 0; i < outcome->n; i++) {
        if (same(outcome->verdicts[i], verdict)) {
            return outcome->when[i];
        }
    }
    struct clauses *ret = outcome->n < VERDICTS_MAX ? new_clauses(outcome, false) : NULL;
    if (ret) {
        outcome->verdicts[outcome->n] = verdict;
        outcome->when[outcome->n++] = ret;
    }
    return ret;
}

/* The next rule decides about what is left. False: it was too much to be said. */
static bool decide(struct outcome *outcome, struct verdict verdict, const struct clauses *when)
{
    CLEANUP(freep) struct clauses *part = malloc(sizeof *part);
    struct clauses *to = verdict_clauses(outcome, verdict);
    if (!part || !to || outcome->failed) {
        return false;
    }
    *part = *when;
    clauses_and(part, outcome->rest);
    CLEANUP(freep) struct clauses *sum = malloc(sizeof *sum);
    CLEANUP(freep) struct clauses *rest = malloc(sizeof *rest);
    if (!sum || !rest) {
        return false;
    }
    *sum = *to;
    clauses_or(sum, part);
    *rest = *when;
    clauses_not(rest);
    clauses_and(rest, outcome->rest);
    if (sum->inexact || rest->inexact) {
        return false;
    }
    *to = *sum;
    *outcome->rest = *rest;
    return true;
}

/* The same, narrowed where it cannot be said. */
static void decide_or_narrow(struct writer *writer, struct outcome *outcome, const char *call,
                             struct verdict verdict, const struct clauses *when)
{
    if (!when->inexact && decide(outcome, verdict, when)) {
        return;
    }
    if (allows(verdict)) {
        draft_note(writer->draft, "its condition cannot be said here: it is not allowed by it", "%s", call);
        return;
    }
    draft_note(writer->draft, "its condition cannot be said here: it is denied whole", "%s", call);
    struct clauses *all = verdict_clauses(outcome, verdict);
    if (all) {
        clauses_or(all, outcome->rest);
    }
    outcome->failed |= !all || all->inexact;
    clauses_set(outcome->rest, false);
}

static void decide_rule(struct writer *writer, struct outcome *outcome, const struct call_rule *rule)
{
    CLEANUP(freep) struct clauses *when = malloc(sizeof *when);
    if (!when) {
        outcome->failed = true;
        return;
    }
    uint64_t bits[6];
    where_bits(rule->call, bits);
    clauses_set(when, rule->always);
    when->inexact = rule->inexact;
    if (!rule->always && !rule->inexact) {
        when->n = rule->n_when;
        for (size_t i = 0; i < rule->n_when; i++) {
            when->rows[i] = rule->when[i];
        }
        clauses_fit(when, bits);
    }
    decide_or_narrow(writer, outcome, rule->call, rule->verdict, when);
}

static struct verdict entry_verdict(const struct writer *writer, const struct filter_entry *entry)
{
    struct seccomp_rule rule = policy_filter_rule(writer->base, entry);
    struct verdict verdict = {.kind = rule.action};
    if (rule.action == ACTION_ERRNO) {
        verdict.code = seccomp_answer(ACTION_ERRNO, rule.errno_name) & 0xffff;
    }
    return verdict;
}

/* What the parts say about the call, behind all that the source says. */
static void decide_base(struct writer *writer, struct outcome *outcome, const char *call, int nr)
{
    for (size_t i = 0; i < writer->filter.n_entries; i++) {
        const struct filter_entry *entry = &writer->filter.entries[i];
        CLEANUP(freep) struct clauses *when = entry->nr == nr ? new_clauses(outcome, true) : NULL;
        if (!when) {
            continue;
        }
        struct seccomp_rule rule = policy_filter_rule(writer->base, entry);
        for (size_t k = 0; k < rule.n_conditions; k++) {
            struct clauses one;
            clauses_compare(&one, &rule.conditions[k]);
            clauses_and(when, &one);
        }
        decide_or_narrow(writer, outcome, call, entry_verdict(writer, entry), when);
    }
}

/* Whether a rule of the parts names the call, and whether one of their sets has it. */
static void base_names(const struct writer *writer, int nr, bool *ret_direct, bool *ret_set)
{
    *ret_direct = *ret_set = false;
    for (size_t i = 0; i < writer->filter.n_entries; i++) {
        if (writer->filter.entries[i].nr == nr) {
            *ret_direct |= writer->filter.entries[i].direct;
            *ret_set |= !writer->filter.entries[i].direct;
        }
    }
}

/* Whether the parts say the very same about the call already, by its name and whatever its arguments. */
static bool base_agrees(const struct writer *writer, int nr, struct verdict verdict)
{
    size_t n = 0, agree = 0;
    for (size_t i = 0; i < writer->filter.n_entries; i++) {
        const struct filter_entry *entry = &writer->filter.entries[i];
        if (entry->nr == nr) {
            n++;
            agree += entry->direct && same(entry_verdict(writer, entry), verdict) &&
                     policy_filter_rule(writer->base, entry).n_conditions == 0;
        }
    }
    return n == 1 && agree == 1;
}

static void put_verdict(struct buf *ret, struct verdict verdict)
{
    static const char *const names[] = {
        [ACTION_ALLOW] = "ALLOW", [ACTION_ERRNO] = "ERRNO",   [ACTION_KILL_PROCESS] = "KILL_PROCESS",
        [ACTION_LOG] = "LOG",     [ACTION_NOTIFY] = "NOTIFY", [ACTION_COUNT] = "COUNT"};
    char number[32];
    buf_printf(ret, "action: %s", names[verdict.kind]);
    if (verdict.kind == ACTION_ERRNO) {
        buf_printf(ret, " errno: \"%s\"", errno_text(verdict.code, number));
    }
}

/* A choice of values is joined to fewer comparisons when it is read, which nobody could then tell apart from
 * those of a rule with another verdict: only where there is none. */
static void write_clauses(struct writer *writer, const char *call, struct verdict verdict,
                          const struct clauses *when, bool alone)
{
    const struct clause *end = when->rows + when->n;
    for (const struct clause *clause = when->rows; clause < end; clause++) {
        size_t before = 0, like = 0;
        for (const struct clause *other = when->rows; alone && other < end; other++) {
            bool choice = where_is_choice(call, clause, other);
            before += choice && other < clause;
            like += choice;
        }
        if (before > 0) {
            continue;
        }
        buf_puts(&writer->conditional, "  rule { ");
        put_verdict(&writer->conditional, verdict);
        buf_printf(&writer->conditional, " syscall: \"%s\"", call);
        if (like > 1) {
            where_write_choice(call, clause, end, &writer->conditional);
        } else {
            where_write(call, clause, &writer->conditional);
        }
        buf_puts(&writer->conditional, " }\n");
    }
}

static void write_conditional(struct writer *writer, const char *call, const struct outcome *outcome,
                              size_t shown)
{
    struct verdict last = last_resort(writer->draft);
    for (size_t i = 0; i < outcome->n; i++) {
        if (!same(outcome->verdicts[i], last)) {
            write_clauses(writer, call, outcome->verdicts[i], outcome->when[i], shown == 1);
        }
    }
}

static void add_plain(struct writer *writer, const char *call, struct verdict verdict)
{
    writer->plain[writer->n_plain++] = (struct plain_call){.call = call, .verdict = verdict};
}

static void write_outcome(struct writer *writer, const char *call, int nr, const struct outcome *outcome)
{
    struct verdict last = last_resort(writer->draft), one = last;
    bool plain = true, direct, set;
    size_t shown = 0;
    base_names(writer, nr, &direct, &set);
    for (size_t i = 0; i < outcome->n; i++) {
        if (outcome->when[i]->n > 0 && !same(outcome->verdicts[i], last)) {
            plain &= clauses_always(outcome->when[i]);
            one = outcome->verdicts[i];
            shown++;
        }
    }
    bool launch = strcmp(call, "execve") == 0; /* the base has a rule of its own for it, only to be one */
    for (size_t i = 0; i < outcome->n; i++) {
        writer->launches |= launch && allows(outcome->verdicts[i]) && outcome->when[i]->n > 0;
    }
    if (plain && shown == 1 && !launch && base_agrees(writer, nr, one)) {
        return;
    }
    if (direct && !launch) {
        buf_printf(writer->without, "%s\"%s\"", writer->without->len > 0 ? ", " : "", call);
    }
    if (plain && shown <= 1) {
        if (shown == 1 || set) {
            add_plain(writer, call, one);
        }
        return;
    }
    write_conditional(writer, call, outcome, shown);
}

static void decide_call(struct writer *writer, const struct call_rule *rules, size_t n)
{
    bool known;
    int nr = policy_syscall_number(rules[0].call, &known);
    if (nr < 0) {
        draft_note(writer->draft, known ? "no system call of this architecture" : "no system call known here",
                   "%.60s", rules[0].call);
        return;
    }
    CLEANUP(outcome_clear) struct outcome outcome = {0};
    outcome.rest = new_clauses(&outcome, true);
    for (size_t i = 0; i < n && !outcome.failed; i++) {
        decide_rule(writer, &outcome, &rules[i]);
    }
    if (allows(writer->draft->otherwise) && !outcome.failed) {
        decide_base(writer, &outcome, rules[0].call, nr);
    }
    if (!outcome.failed) {
        write_outcome(writer, rules[0].call, nr, &outcome);
        return;
    }
    draft_note(writer->draft, "what is said of it cannot be said here: it is denied", "%s", rules[0].call);
    add_plain(writer, rules[0].call, last_resort(writer->draft));
}

static int compare_rules(const void *a, const void *b)
{
    const struct call_rule *x = a, *y = b;
    int by_name = strcmp(x->call, y->call);
    return by_name != 0 ? by_name : x->order < y->order ? -1 : 1;
}

static void decide_calls(struct writer *writer)
{
    struct draft *draft = writer->draft;
    if (draft->n_rules > 0) {
        qsort(draft->rules, draft->n_rules, sizeof *draft->rules, compare_rules);
    }
    for (size_t i = 0, n; i < draft->n_rules; i += n) {
        for (n = 1; i + n < draft->n_rules && strcmp(draft->rules[i].call, draft->rules[i + n].call) == 0;) {
            n++;
        }
        decide_call(writer, &draft->rules[i], n);
    }
}

static struct plain_call *find_plain(struct writer *writer, const char *call)
{
    for (size_t i = 0; i < writer->n_plain; i++) {
        if (strcmp(writer->plain[i].call, call) == 0) {
            return &writer->plain[i];
        }
    }
    return NULL;
}

static bool has_rule(const struct writer *writer, const char *call)
{
    for (size_t i = 0; i < writer->draft->n_rules; i++) {
        if (strcmp(writer->draft->rules[i].call, call) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether every call of the set that this machine has got this verdict. */
static bool set_fits(struct writer *writer, const struct syscall_row *set, struct verdict verdict)
{
    size_t n = 0;
    for (const struct syscall_row *row = syscall_set_next(set); row; row = syscall_set_next(row)) {
        if (policy_syscall_number(row->name, NULL) < 0) {
            continue;
        }
        const struct plain_call *plain = find_plain(writer, row->name);
        if (!plain || plain->in_set || !same(plain->verdict, verdict)) {
            return false;
        }
        n++;
    }
    return n >= SET_CALLS_MIN;
}

/* Calls that an allowed set allows with some arguments only are named beside it. */
static void take_set(struct writer *writer, const struct syscall_row *set, struct verdict verdict)
{
    for (const struct syscall_row *row = syscall_set_next(set); row; row = syscall_set_next(row)) {
        struct plain_call *plain = find_plain(writer, row->name);
        if (plain && !(allows(verdict) && row->n_conditions > 0)) {
            plain->in_set = true;
        }
    }
}

static void put_item(struct buf *ret, size_t *line, size_t *n, const char *name)
{
    size_t width = strlen(name) + 4;
    bool wrap = *n > 0 && ret->len - *line + width > 108;
    buf_puts(ret, *n > 0 ? "," : "");
    *line = wrap ? ret->len + 1 : *line;
    buf_printf(ret, "%s\"%s\"", wrap ? "\n      " : *n > 0 ? " " : "", name);
    (*n)++;
}

static void write_sets(struct writer *writer, struct verdict verdict, struct buf *ret)
{
    size_t line = ret->len, n = 0;
    bool deny_lists = allows(writer->draft->otherwise);
    for (const struct syscall_row *set = syscall_sets(); set->name; set++) {
        bool may = set->reason && (set->kind == SET_DANGER || (set->kind == SET_SAFE && !deny_lists));
        if (may && set_fits(writer, set, verdict)) {
            buf_puts(ret, n == 0 ? "\n    set: [" : "");
            line = n == 0 ? ret->len - 10 : line;
            put_item(ret, &line, &n, set->name);
            take_set(writer, set, verdict);
        }
    }
    buf_puts(ret, n > 0 ? "]" : "");
}

static void write_plain(struct writer *writer, size_t index, struct buf *ret)
{
    struct verdict verdict = writer->plain[index].verdict;
    size_t line, n = 0;
    for (size_t i = 0; i < index; i++) {
        if (same(writer->plain[i].verdict, verdict)) {
            return;
        }
    }
    buf_puts(ret, "  rule {\n    ");
    put_verdict(ret, verdict);
    write_sets(writer, verdict, ret);
    line = ret->len + 1;
    for (size_t i = index; i < writer->n_plain; i++) {
        if (!writer->plain[i].in_set && same(writer->plain[i].verdict, verdict)) {
            buf_puts(ret, n == 0 ? "\n    syscall: [" : "");
            put_item(ret, &line, &n, writer->plain[i].call);
        }
    }
    buf_puts(ret, n > 0 ? "]\n  }\n" : "\n  }\n");
}

static int check_launch(struct writer *writer, struct err *reterr)
{
    bool given = has_rule(writer, "execve");
    if (given ? writer->launches : allows(writer->draft->otherwise)) {
        return 0;
    }
    if (given) {
        return err_set(reterr, ERR_CONFIG, 0, writer->draft->request->path,
                       "denies execve, and the launch itself is one that comes after the filter: no program "
                       "could be started; take that rule out");
    }
    add_plain(writer, "execve", (struct verdict){.kind = ACTION_ALLOW});
    draft_added(writer->draft, "the launch itself comes after the filter", "execve");
    return 0;
}

static bool is_allowed(struct writer *writer, const char *call)
{
    const struct plain_call *plain = find_plain(writer, call);
    return plain && allows(plain->verdict);
}

/* What a C library of today calls, where an allow-list does not decide about it. */
static void add_libc(struct writer *writer)
{
    for (const struct libc_call *row = libc_calls; row->call; row++) {
        int nr = policy_syscall_number(row->call, NULL);
        bool direct, set;
        base_names(writer, nr, &direct, &set);
        if (has_rule(writer, row->call) || nr < 0 || direct) {
            continue;
        }
        bool twin = row->twin && is_allowed(writer, row->twin) &&
                    (!row->other_twin || is_allowed(writer, row->other_twin));
        if (twin) {
            draft_added(writer->draft, "the same as what is allowed, by the name that C libraries use now",
                        "%s", row->call);
            add_plain(writer, row->call, (struct verdict){.kind = ACTION_ALLOW});
        } else if (writer->draft->request->with_libc && row->harmless) {
            draft_added(writer->draft, "needed by a C library of today (--with-libc)", "%s", row->call);
            add_plain(writer, row->call, (struct verdict){.kind = ACTION_ALLOW});
        } else {
            if (row->harmless) {
                draft_suggest(
                    writer->draft,
                    "C libraries of today call it, and the source does not allow it; --with-libc does", "%s",
                    row->call);
            }
            if (row->without) {
                draft_added(writer->draft, "answered with ENOSYS, and C libraries do without it", "%s",
                            row->call);
                add_plain(writer, row->call, (struct verdict){.kind = ACTION_ERRNO, .code = ENOSYS});
            }
        }
    }
}

int calls_base(const struct draft *draft, struct policy_spec **ret, struct err *reterr)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    buf_printf(&text, "name: \"base\" use: [%s] seccomp { %s } %s", calls_parts(draft),
               allows(draft->otherwise) ? "" : "rule { action: ALLOW syscall: \"execve\" }",
               draft->host_files
                   ? ""
                   : "mount { destination: \"/.import\" tmpfs {} } working_directory: \"/.import\"");
    if (text.failed) {
        return err_errno(reterr, ENOMEM, "importing a policy");
    }
    return policy_spec_decode_text("parts", text.data, text.len, ret, reterr);
}

static void write_all(struct writer *writer, struct buf *ret)
{
    struct verdict last = last_resort(writer->draft);
    char number[32];
    buf_puts(ret, "seccomp {\n  default_action: ");
    buf_puts(ret, last.kind == ACTION_ERRNO          ? "ERRNO"
                  : last.kind == ACTION_KILL_PROCESS ? "KILL_PROCESS"
                                                     : "NOTIFY");
    if (last.kind == ACTION_ERRNO) {
        buf_printf(ret, "\n  default_errno: \"%s\"", errno_text(last.code, number));
    }
    buf_putc(ret, '\n');
    for (size_t i = 0; i < writer->n_plain; i++) {
        write_plain(writer, i, ret);
    }
    if (writer->conditional.data) {
        buf_append(ret, writer->conditional.data, writer->conditional.len);
    }
    buf_puts(ret, "}\n");
}

static void writer_clear(struct writer *writer)
{
    buf_free(&writer->conditional);
    policy_filter_clear(&writer->filter);
    free(writer->plain);
}

int calls_text(struct draft *draft, const struct policy_spec *base, struct buf *ret, struct buf *ret_without,
               struct err *reterr)
{
    CLEANUP(writer_clear) struct writer writer = {.draft = draft, .base = base, .without = ret_without};
    writer.plain = calloc(draft->n_rules + LIBC_CALLS_MAX + 1, sizeof *writer.plain);
    if (!writer.plain) {
        return err_errno(reterr, ENOMEM, "importing a policy");
    }
    int r = policy_filter_decide(base, &writer.filter, reterr);
    if (r < 0) {
        return r;
    }
    decide_calls(&writer);
    r = check_launch(&writer, reterr);
    if (r < 0) {
        return r;
    }
    if (!allows(draft->otherwise)) {
        add_libc(&writer);
    }
    write_all(&writer, ret);
    ret->failed |= writer.conditional.failed;
    return 0;
}
