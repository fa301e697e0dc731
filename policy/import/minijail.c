/* minijail's policy files: a system call and what it may be called with, line by line. Runs in the command
 * line. */
#include <errno.h>
#include <string.h>

#include "jail/base/err.h"
#include "policy/filter/errno_names.h"
#include "policy/filter/names.h"
#include "policy/import/clauses.h"
#include "policy/import/draft.h"
#include "policy/import/formats.h"
#include "policy/import/import.h"

#define INCLUDES_MAX 16u

/* A logical line, with its first line's number. */
struct line {
    const struct import_text *from;
    unsigned number;
    const char *pos, *end;
};

static void skip_blanks(struct line *line)
{
    while (line->pos < line->end && strchr(" \t\r", *line->pos)) {
        line->pos++;
    }
}

static bool accept(struct line *line, const char *word)
{
    skip_blanks(line);
    size_t length = strlen(word);
    if ((size_t)(line->end - line->pos) < length || memcmp(line->pos, word, length) != 0) {
        return false;
    }
    line->pos += length;
    return true;
}

/* Letters, digits and '_', or none. */
static size_t word_length(const struct line *line)
{
    size_t n = 0;
    while (line->pos + n < line->end &&
           (strchr("_-", line->pos[n]) || (line->pos[n] >= '0' && line->pos[n] <= '9') ||
            ((line->pos[n] | 0x20) >= 'a' && (line->pos[n] | 0x20) <= 'z'))) {
        n++;
    }
    return n;
}

static int fail(const struct line *line, struct err *reterr, const char *what)
{
    size_t left = (size_t)(line->end - line->pos);
    return import_fail(line->from->file, line->number, reterr, "%s at \"%.*s\"", what,
                       (int)(left < 40 ? left : 40), line->pos);
}

static int read_values(struct line *line, unsigned depth, uint64_t *ret, struct err *reterr);

static int read_value(struct line *line, unsigned depth, uint64_t *ret, struct err *reterr)
{
    if (accept(line, "~")) {
        int r = depth < 16 ? read_value(line, depth + 1, ret, reterr) : fail(line, reterr, "nested too deep");
        *ret = ~*ret;
        return r;
    }
    if (accept(line, "(")) {
        int r =
            depth < 16 ? read_values(line, depth + 1, ret, reterr) : fail(line, reterr, "nested too deep");
        return r < 0 || accept(line, ")") ? r : fail(line, reterr, "')' is missing");
    }
    skip_blanks(line);
    size_t n = word_length(line);
    if (!import_number(line->pos, n, ret) && !import_constant(line->pos, n, ret)) {
        return fail(line, reterr, "neither a number nor a constant that is known here");
    }
    line->pos += n;
    return 0;
}

/* One, or several joined by '|'. */
static int read_values(struct line *line, unsigned depth, uint64_t *ret, struct err *reterr)
{
    uint64_t one = 0;
    *ret = 0;
    do {
        int r = read_value(line, depth, &one, reterr);
        if (r < 0) {
            return r;
        }
        *ret |= one;
        skip_blanks(line);
    } while (line->end - line->pos > 1 && line->pos[0] == '|' && line->pos[1] != '|' && accept(line, "|"));
    return 0;
}

/* arg1 == 3 */
static int read_atom(struct line *line, struct clauses *ret, struct err *reterr)
{
    static const struct {
        const char *word;
        enum seccomp_op op;
    } rows[] = {{"==", OP_EQ}, {"!=", OP_NE}, {"<=", OP_LE},       {">=", OP_GE},
                {"<", OP_LT},  {">", OP_GT},  {"&", OP_MASKED_NE}, {"in", OP_MASKED_EQ}};
    uint64_t value = 0;
    if (!accept(line, "arg") || line->pos == line->end || *line->pos < '0' || *line->pos > '5') {
        return fail(line, reterr, "an argument, arg0 to arg5, is expected");
    }
    uint32_t arg = (uint32_t)(*line->pos++ - '0');
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!accept(line, rows[i].word)) {
            continue;
        }
        int r = read_values(line, 0, &value, reterr);
        struct seccomp_condition condition = {.arg = arg, .op = rows[i].op, .value = value};
        if (rows[i].op == OP_MASKED_NE || rows[i].op == OP_MASKED_EQ) {
            condition.mask = rows[i].op == OP_MASKED_NE ? value : ~value;
            condition.value = 0;
        }
        clauses_compare(ret, &condition);
        return r;
    }
    return fail(line, reterr, "a comparison (==, !=, <, <=, >, >=, &, in) is expected");
}

static int read_condition(struct line *line, struct clauses *ret, struct err *reterr)
{
    struct clauses all, one;
    clauses_set(ret, false);
    do {
        clauses_set(&all, true);
        do {
            int r = read_atom(line, &one, reterr);
            if (r < 0) {
                return r;
            }
            clauses_and(&all, &one);
        } while (accept(line, "&&"));
        clauses_or(ret, &all);
    } while (accept(line, "||"));
    return 0;
}

/* The words for what is not allowed. */
static bool read_action(struct draft *draft, struct line *line, struct verdict *ret)
{
    static const struct {
        const char *word;
        enum seccomp_action_kind kind;
        const char *note;
    } rows[] = {
        {"kill-process", ACTION_KILL_PROCESS, NULL},
        {"kill-thread", ACTION_KILL_PROCESS, "ends the whole program, not a thread (KILL_PROCESS)"},
        {"kill", ACTION_KILL_PROCESS, NULL},
        {"trap", ACTION_KILL_PROCESS, "no signal that could be handled: KILL_PROCESS"},
        {"trace", ACTION_KILL_PROCESS, "nobody traces: KILL_PROCESS"},
        {"user-notify", ACTION_NOTIFY, "nobody of the source's listens: NOTIFY, EPERM and named"},
        {"log", ACTION_LOG, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (accept(line, rows[i].word)) {
            *ret = (struct verdict){.kind = rows[i].kind};
            if (rows[i].note) {
                draft_note(draft, rows[i].note, "%s", rows[i].word);
            }
            return true;
        }
    }
    return false;
}

/* "return EPERM", "return 1", "kill" and the like, behind a condition or alone. */
static int read_answer(struct draft *draft, struct line *line, struct verdict *ret, struct err *reterr)
{
    char name[32];
    uint64_t code;
    if (read_action(draft, line, ret)) {
        return 0;
    }
    if (!accept(line, "return")) {
        return fail(line, reterr, "\"return\" and an error, or \"kill\", is expected");
    }
    skip_blanks(line);
    size_t n = word_length(line);
    if (n == 0) {
        *ret = (struct verdict){.kind = ACTION_KILL_PROCESS};
        return 0;
    }
    if (n >= sizeof name) {
        return fail(line, reterr, "no such error");
    }
    memcpy(name, line->pos, n);
    name[n] = '\0';
    code = import_number(name, n, &code) ? code : policy_errno_number(name);
    bool success = strcmp(name, "0") == 0;
    if (success) {
        draft_note(draft, "success without the call cannot be answered; it is EPERM", "return 0");
    } else if (code == 0 || code > 4095) {
        return fail(line, reterr, "no such error");
    }
    line->pos += n;
    *ret = (struct verdict){.kind = ACTION_ERRNO, .code = success ? EPERM : (uint32_t)code};
    return 0;
}

static int at_end(struct line *line, struct err *reterr)
{
    skip_blanks(line);
    return line->pos == line->end ? 0 : fail(line, reterr, "nothing more is expected");
}

static int read_rule(struct draft *draft, const char *call, struct line *line, struct err *reterr)
{
    static const struct verdict allow = {.kind = ACTION_ALLOW};
    struct verdict answer;
    struct clauses when;
    skip_blanks(line);
    bool condition = line->end - line->pos >= 3 && memcmp(line->pos, "arg", 3) == 0;
    bool allowed = !condition && (accept(line, "allow") || accept(line, "1"));
    if (!condition && !allowed) {
        int r = read_answer(draft, line, &answer, reterr);
        draft_rule(draft, call, answer, NULL);
        return r < 0 ? r : at_end(line, reterr);
    }
    if (allowed) {
        draft_rule(draft, call, allow, NULL);
        return at_end(line, reterr);
    }
    int r = read_condition(line, &when, reterr);
    if (r < 0) {
        return r;
    }
    draft_rule(draft, call, allow, &when);
    if (accept(line, ";")) {
        r = read_answer(draft, line, &answer, reterr);
        draft_rule(draft, call, answer, NULL);
    }
    return r < 0 ? r : at_end(line, reterr);
}

static int read_file(struct draft *draft, const struct import_text *text, unsigned *n_includes,
                     struct err *reterr);

static int read_default(struct draft *draft, struct line *line, struct err *reterr)
{
    if (accept(line, "allow")) {
        draft->otherwise = (struct verdict){.kind = ACTION_ALLOW};
        return at_end(line, reterr);
    }
    int r = read_answer(draft, line, &draft->otherwise, reterr);
    return r < 0 ? r : at_end(line, reterr);
}

static int read_directive(struct draft *draft, struct line *line, unsigned *n_includes, struct err *reterr)
{
    if (accept(line, "@include ")) {
        skip_blanks(line);
        while (line->end > line->pos && strchr(" \t\r", line->end[-1])) {
            line->end--;
        }
        struct import_text text;
        const char *name = draft_text(draft, line->pos, (size_t)(line->end - line->pos));
        if (++*n_includes > INCLUDES_MAX) {
            return fail(line, reterr, "too many files are included");
        }
        int r = import_include(draft, line->from, line->number, name, &text, reterr);
        return r < 0 ? r : read_file(draft, &text, n_includes, reterr);
    }
    if (accept(line, "@frequency")) {
        draft_note(draft, "an order for speed, which this filter finds by itself", "@frequency");
        return 0;
    }
    if (accept(line, "@denylist")) {
        draft->otherwise.kind = ACTION_ALLOW;
        return at_end(line, reterr);
    }
    return accept(line, "@default") ? read_default(draft, line, reterr)
                                    : fail(line, reterr, "no directive that is known");
}

/* A call's first line decides about all of it. */
static bool has_rules(const struct draft *draft, const char *call)
{
    for (size_t i = 0; i < draft->n_rules; i++) {
        if (strcmp(draft->rules[i].call, call) == 0) {
            return true;
        }
    }
    return false;
}

/* "[arch=x86_64]" behind a call, which is not there for another machine. */
static int read_architecture(struct draft *draft, struct line *line, const char *call, size_t *n_calls,
                             struct err *reterr)
{
    if (!accept(line, "arch=")) {
        return fail(line, reterr, "arch= is expected");
    }
    size_t n = word_length(line);
    const char *name = policy_native_architecture();
    bool here = strlen(name) == n && memcmp(name, line->pos, n) == 0;
    here |= strcmp(name, "aarch64") == 0 && n == 5 && memcmp(line->pos, "arm64", n) == 0;
    if (!here) {
        draft_note(draft, "for another architecture", "%s[arch=%.*s]", call, (int)(n < 20 ? n : 20),
                   line->pos);
        --*n_calls;
    }
    line->pos += n;
    return accept(line, "]") ? 0 : fail(line, reterr, "']' is missing");
}

/* "call: ...", "{call, call}: ..." or "call[arch=x86_64]: ..." */
static int read_line(struct draft *draft, struct line *line, struct err *reterr)
{
    const char *calls[64], *rest = NULL;
    size_t n_calls = 0;
    int r = 0;
    bool several = accept(line, "{");
    do {
        skip_blanks(line);
        size_t n = word_length(line);
        uint64_t number;
        char name[64];
        if (n == 0 || n_calls == sizeof calls / sizeof *calls) {
            return fail(line, reterr, "the name of a system call is expected");
        }
        bool by_number = import_number(line->pos, n, &number) && number < 100000;
        calls[n_calls++] =
            by_number
                ? draft_printf(draft, "%s",
                               policy_syscall_name(policy_native_arch(), (int)number, name, sizeof name))
                : draft_text(draft, line->pos, n);
        line->pos += n;
        if (accept(line, "[")) {
            r = read_architecture(draft, line, calls[n_calls - 1], &n_calls, reterr);
            if (r < 0) {
                return r;
            }
        }
    } while (several && accept(line, ","));
    if (several && !accept(line, "}")) {
        return fail(line, reterr, "'}' is missing");
    }
    if (!accept(line, ":")) {
        return fail(line, reterr, "':' is missing behind the system call");
    }
    rest = line->pos;
    for (size_t i = 0; i < n_calls; i++) {
        line->pos = rest;
        size_t before = draft->n_rules;
        bool again = has_rules(draft, calls[i]);
        r = read_rule(draft, calls[i], line, reterr);
        if (again) {
            draft->n_rules = before;
            draft_note(draft, "is there twice; the first one counts", "%s", calls[i]);
        }
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

/* Up to the end of the line, or of those that a backslash joins; those become blanks in the draft's own copy.
 */
static struct line next_line(struct draft *draft, struct import_text *text)
{
    struct line line = {.from = text, .number = text->line, .pos = text->text};
    const char *end = text->text + text->size, *at = line.pos;
    bool joined = false;
    for (; at < end && (*at != '\n' || (at > line.pos && at[-1] == '\\')); at++) {
        joined |= *at == '\n';
        text->line += *at == '\n';
    }
    line.end = at;
    text->line++;
    text->size -= (size_t)(at - text->text) + (at < end);
    text->text = at + (at < end);
    if (joined) {
        char *copy = draft_alloc(draft, (size_t)(line.end - line.pos) + 1);
        for (size_t i = 0; copy && line.pos + i < line.end; i++) {
            bool blank = line.pos[i] == '\n' || line.pos[i] == '\\';
            copy[i] = blank ? ' ' : line.pos[i];
        }
        line.end = copy ? copy + (line.end - line.pos) : line.end;
        line.pos = copy ? copy : line.pos;
    }
    return line;
}

static int read_file(struct draft *draft, const struct import_text *text, unsigned *n_includes,
                     struct err *reterr)
{
    struct import_text rest = *text;
    while (rest.size > 0) {
        struct line line = next_line(draft, &rest);
        line.from = text;
        const char *comment = memchr(line.pos, '#', (size_t)(line.end - line.pos));
        line.end = comment ? comment : line.end;
        skip_blanks(&line);
        if (line.pos == line.end) {
            continue;
        }
        int r = *line.pos == '@' ? read_directive(draft, &line, n_includes, reterr)
                                 : read_line(draft, &line, reterr);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

int import_minijail(struct draft *draft, struct err *reterr)
{
    const struct import_text text = {
        .file = draft->request->path, .text = draft->request->text, .size = draft->request->size, .line = 1};
    unsigned n_includes = 0;
    draft->host_files = true;
    draft->otherwise.kind = ACTION_KILL_PROCESS;
    return read_file(draft, &text, &n_includes, reterr);
}
