/* The settings of a unit that become filters there: SystemCallFilter= and those that restrict single calls.
 * Runs in the command line. Each of the latter is a filter of its own there, and the strictest wins: here its
 * denials come first. */
#include "policy/import/systemd_filter.h"

#include <errno.h>
#include <linux/sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>

#include "config/policy/constants.h"
#include "jail/base/cleanup.h"
#include "policy/filter/errno_names.h"
#include "policy/import/clauses.h"
#include "policy/import/formats.h"

#define CALLS_MAX 2000u

bool unit_yes(const char *value)
{
    return strcasecmp(value, "yes") == 0 || strcasecmp(value, "true") == 0 || strcasecmp(value, "on") == 0 ||
           strcmp(value, "1") == 0;
}

static struct unit_call *call_of(struct unit_filter *filter, const char *name)
{
    for (size_t i = 0; i < filter->n_calls; i++) {
        if (strcmp(filter->calls[i].name, name) == 0) {
            return &filter->calls[i];
        }
    }
    struct unit_call *rows = NULL;
    if (filter->n_calls < CALLS_MAX) {
        rows = reallocarray(filter->calls, filter->n_calls + 1, sizeof *rows);
    }
    if (!rows) {
        filter->draft->too_many = true;
        return NULL;
    }
    filter->calls = rows;
    filter->calls[filter->n_calls] = (struct unit_call){.name = name};
    return &filter->calls[filter->n_calls++];
}

/* A call, or all of a group; groups hold groups, not themselves. */
static void set_calls(struct unit_filter *filter, const char *name, bool listed, uint32_t code)
{
    const char *group = name[0] == '@' ? systemd_group(name) : NULL;
    if (name[0] == '@' && !group) {
        draft_note(filter->draft,
                   listed == filter->allow_list
                       ? "no group of calls that is known here; none of it is allowed by it"
                       : "no group of calls that is known here; name its calls",
                   "SystemCallFilter=%.60s", name);
        return;
    }
    if (!group) {
        struct unit_call *call = call_of(filter, name);
        if (call) {
            call->listed = listed;
            call->code = code;
        }
        return;
    }
    for (const char *word = group; *word; word += strspn(word, " ")) {
        size_t n = strcspn(word, " ");
        set_calls(filter, draft_text(filter->draft, word, n), listed, code);
        word += n;
    }
}

/* "@group:EPERM"; ":kill" and ":log" are words as well. */
static int split_code(const char *word, size_t *length, uint32_t *ret_code)
{
    const char *colon = memchr(word, ':', *length);
    char name[32];
    *ret_code = 0;
    if (!colon) {
        return 0;
    }
    size_t n = *length - (size_t)(colon + 1 - word);
    if (n == 0 || n >= sizeof name) {
        return -EINVAL;
    }
    memcpy(name, colon + 1, n);
    name[n] = '\0';
    *length = (size_t)(colon - word);
    *ret_code = strcmp(name, "kill") == 0 ? 0 : policy_errno_number(name);
    return *ret_code == 0 && strcmp(name, "kill") != 0 ? -EINVAL : 0;
}

int unit_filter_add(struct unit_filter *filter, const char *value, const char **ret_what)
{
    bool minus = value[0] == '~';
    if (value[0] == '\0') {
        filter->n_calls = 0;
        filter->given = false;
        return 0;
    }
    if (!filter->given) {
        filter->given = true;
        filter->allow_list = !minus;
        if (filter->allow_list) {
            set_calls(filter, "@default", true, 0);
        }
    }
    value += minus;
    for (value += strspn(value, " \t"); *value; value += strspn(value, " \t")) {
        size_t length = strcspn(value, " \t"), all = length;
        uint32_t code;
        if (split_code(value, &length, &code) < 0) {
            *ret_what = "an error's name behind ':' is expected";
            return -EINVAL;
        }
        bool listed = minus != filter->allow_list;
        set_calls(filter, draft_text(filter->draft, value, length), listed, code);
        value += all;
    }
    return 0;
}

static struct verdict denial(uint32_t code)
{
    return code != 0 ? (struct verdict){.kind = ACTION_ERRNO, .code = code}
                     : (struct verdict){.kind = ACTION_KILL_PROCESS};
}

void unit_filter_end(struct unit_filter *filter)
{
    static const struct verdict allow = {.kind = ACTION_ALLOW};
    struct draft *draft = filter->draft;
    draft->otherwise = filter->given && filter->allow_list ? denial(filter->code) : allow;
    for (size_t i = 0; i < filter->n_calls; i++) {
        const struct unit_call *call = &filter->calls[i];
        struct verdict verdict = denial(call->code != 0 ? call->code : filter->code);
        if (call->listed && filter->allow_list) {
            verdict = call->code != 0 ? verdict : allow;
        }
        if (call->listed || call->code != 0) {
            draft_rule(draft, call->name, verdict, NULL);
        }
    }
    free(filter->calls);
    filter->calls = NULL;
    filter->n_calls = 0;
}

static void deny(struct draft *draft, const char *call, uint32_t code, const struct clauses *when)
{
    draft_rule(draft, call, denial(code), when);
}

static void masked(struct clauses *ret, uint32_t arg, uint64_t mask, uint64_t value)
{
    struct seccomp_condition condition = {.arg = arg, .op = OP_MASKED_EQ, .mask = mask, .value = value};
    clauses_compare(ret, &condition);
}

/* Words of the value as constants; `none` and a '~' in front are the caller's. */
static bool next_word(const char **value, const char **ret, size_t *ret_length)
{
    *value += strspn(*value, " \t");
    *ret = *value;
    *ret_length = strcspn(*value, " \t");
    *value += *ret_length;
    return *ret_length > 0;
}

static void restrict_families(struct draft *draft, const char *value)
{
    struct clauses listed, one;
    bool minus = value[0] == '~';
    const char *rest = value + minus, *word;
    size_t length;
    clauses_set(&listed, false);
    while (next_word(&rest, &word, &length)) {
        uint64_t family;
        if (length == 4 && memcmp(word, "none", 4) == 0) {
            continue;
        }
        if (constant_find("family", word, length, &family)) {
            masked(&one, 0, UINT64_MAX, family);
            clauses_or(&listed, &one);
        } else {
            draft_note(draft,
                       minus ? "no family that is known here; the parts allow AF_UNIX, AF_INET and AF_INET6"
                             : "no family that is known here; it is not allowed",
                       "RestrictAddressFamilies=%.*s", (int)(length < 40 ? length : 40), word);
        }
    }
    if (!minus) {
        clauses_not(&listed);
    }
    deny(draft, "socket", EAFNOSUPPORT, &listed);
    deny(draft, "socketpair", EAFNOSUPPORT, &listed);
}

/* All of them are denied whatever is listed: a jail's program makes no namespaces. */
static void restrict_namespaces(struct draft *draft, const char *value)
{
    static const uint64_t bits[] = {CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
                                    CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET};
    struct clauses any, one;
    bool some = !unit_yes(value);
    if (strcasecmp(value, "no") == 0 || strcasecmp(value, "false") == 0 || strcmp(value, "0") == 0) {
        return;
    }
    if (some) {
        draft_note(draft, "no program of a jail makes any namespace", "RestrictNamespaces=%.80s", value);
    }
    clauses_set(&any, false);
    for (size_t i = 0; i < ARRAY_SIZE(bits); i++) {
        masked(&one, 0, bits[i], bits[i]);
        clauses_or(&any, &one);
    }
    deny(draft, "clone", EPERM, &any);
    deny(draft, "clone3", ENOSYS, NULL);
    deny(draft, "unshare", EPERM, NULL);
    deny(draft, "setns", EPERM, NULL);
}

static void deny_write_execute(struct draft *draft)
{
    struct clauses when;
    masked(&when, 2, PROT_WRITE | PROT_EXEC, PROT_WRITE | PROT_EXEC);
    deny(draft, "mmap", EPERM, &when);
    masked(&when, 2, PROT_EXEC, PROT_EXEC);
    deny(draft, "mprotect", EPERM, &when);
    deny(draft, "pkey_mprotect", EPERM, &when);
    masked(&when, 2, SHM_EXEC, SHM_EXEC);
    deny(draft, "shmat", EPERM, &when);
}

static void lock_personality(struct draft *draft)
{
    struct clauses when, asking;
    masked(&when, 0, UINT64_MAX, 0);
    masked(&asking, 0, UINT64_MAX, 0xffffffff);
    clauses_or(&when, &asking);
    clauses_not(&when);
    deny(draft, "personality", EPERM, &when);
}

/* Policies that are no others than SCHED_OTHER, SCHED_BATCH and SCHED_IDLE, with or without a reset on fork.
 */
static void restrict_realtime(struct draft *draft)
{
    static const uint64_t policies[] = {0, 3, 5};
    struct clauses when, one;
    clauses_set(&when, false);
    for (size_t i = 0; i < ARRAY_SIZE(policies); i++) {
        masked(&one, 1, ~UINT64_C(0x40000000), policies[i]);
        clauses_or(&when, &one);
    }
    clauses_not(&when);
    deny(draft, "sched_setscheduler", EPERM, &when);
    deny(draft, "sched_setattr", EPERM, NULL);
}

bool unit_restrict(struct draft *draft, const char *key, const char *value)
{
    static const struct {
        const char *key;
        void (*deny)(struct draft *);
    } rows[] = {{"MemoryDenyWriteExecute", deny_write_execute},
                {"LockPersonality", lock_personality},
                {"RestrictRealtime", restrict_realtime}};
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (strcmp(rows[i].key, key) == 0) {
            if (unit_yes(value)) {
                rows[i].deny(draft);
            }
            return true;
        }
    }
    if (strcmp(key, "RestrictAddressFamilies") == 0) {
        restrict_families(draft, value);
        return true;
    }
    if (strcmp(key, "RestrictNamespaces") == 0) {
        restrict_namespaces(draft, value);
        return true;
    }
    return false;
}
