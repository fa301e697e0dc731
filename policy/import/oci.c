/* Seccomp profiles as JSON: an OCI runtime's config.json, its linux.seccomp alone, and Docker's profiles,
 * whose `includes` and `excludes` are settled for this machine and for no capabilities. Runs in the command
 * line.
 *
 * libseccomp leaves open which of two rules wins where both hold; here the stricter one does. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "config/format/json.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "policy/filter/errno_names.h"
#include "policy/filter/names.h"
#include "policy/import/clauses.h"
#include "policy/import/draft.h"
#include "policy/import/formats.h"
#include "policy/import/import.h"

struct reader {
    struct draft *draft;
    struct err *err;
    uint32_t errno_code; /* of actions that give none */
};

static void doc_freep(struct json_doc **doc)
{
    json_free(*doc);
}

static int fail_at(const struct reader *reader, const struct json *value, const char *what)
{
    const struct import_request *request = reader->draft->request;
    unsigned line = 1;
    for (size_t i = 0; value && i < json_offset(value); i++) {
        line += request->text[i] == '\n';
    }
    return import_fail(request->path, line, reader->err, "%s", what);
}

static int read_action(struct reader *reader, const struct json *value, uint32_t code, struct verdict *ret)
{
    static const struct {
        const char *name;
        enum seccomp_action_kind kind;
        const char *note;
    } rows[] = {
        {"SCMP_ACT_ALLOW", ACTION_ALLOW, NULL},
        {"SCMP_ACT_ERRNO", ACTION_ERRNO, NULL},
        {"SCMP_ACT_KILL_PROCESS", ACTION_KILL_PROCESS, NULL},
        {"SCMP_ACT_KILL", ACTION_KILL_PROCESS, "ends the whole program, not a thread (KILL_PROCESS)"},
        {"SCMP_ACT_KILL_THREAD", ACTION_KILL_PROCESS, "ends the whole program, not a thread (KILL_PROCESS)"},
        {"SCMP_ACT_LOG", ACTION_LOG, NULL},
        {"SCMP_ACT_TRAP", ACTION_KILL_PROCESS, "no signal that could be handled: KILL_PROCESS"},
        {"SCMP_ACT_TRACE", ACTION_ERRNO, "nobody traces: ERRNO ENOSYS, as without a tracer"},
        {"SCMP_ACT_NOTIFY", ACTION_NOTIFY, "nobody of the source's listens: NOTIFY, EPERM and named"},
    };
    const char *name = json_string(value);
    for (size_t i = 0; name && i < ARRAY_SIZE(rows); i++) {
        if (strcmp(rows[i].name, name) == 0) {
            bool trace = rows[i].kind == ACTION_ERRNO && rows[i].note;
            *ret = (struct verdict){.kind = rows[i].kind, .code = trace ? ENOSYS : code};
            if (rows[i].note) {
                draft_note(reader->draft, rows[i].note, "%s", name);
            }
            return 0;
        }
    }
    return fail_at(reader, value, "action: is no action of seccomp (SCMP_ACT_ALLOW, SCMP_ACT_ERRNO, ...)");
}

/* The number of an error, by its number or its name. 0 has no counterpart: the call would seem to be done. */
static int read_errno(struct reader *reader, const struct json *number, const struct json *name,
                      uint32_t *code)
{
    uint64_t value = 0;
    if (json_given(number) && !json_u64(number, &value)) {
        return fail_at(reader, number, "errnoRet: must be a whole number");
    }
    if (json_given(name) && !json_string(name)) {
        return fail_at(reader, name, "errno: must be a name");
    }
    if (!json_given(number) && json_given(name)) {
        value = policy_errno_number(json_string(name));
    }
    if (json_given(number) || json_given(name)) {
        bool fits = value > 0 && value <= 4095;
        if (!fits) {
            draft_note(reader->draft, "cannot be answered; it is EPERM", "errno %llu",
                       (unsigned long long)value);
        }
        *code = fits ? (uint32_t)value : EPERM;
    }
    return 0;
}

static bool list_has(const struct json *list, const char *word)
{
    for (const struct json *item = json_first(list); item; item = json_next(item)) {
        const char *text = json_string(item);
        if (text && strcmp(text, word) == 0) {
            return true;
        }
    }
    return false;
}

/* In the words of Docker's profiles. */
static const char *docker_architecture(void)
{
    const char *name = policy_native_architecture();
    return strcmp(name, "x86_64") == 0 ? "amd64" : strcmp(name, "aarch64") == 0 ? "arm64" : name;
}

static bool kernel_is_older(const char *wanted)
{
    struct utsname name;
    unsigned long major, minor, wanted_major, wanted_minor;
    return !wanted || uname(&name) < 0 || sscanf(name.release, "%lu.%lu", &major, &minor) != 2 ||
           sscanf(wanted, "%lu.%lu", &wanted_major, &wanted_minor) != 2 || major < wanted_major ||
           (major == wanted_major && minor < wanted_minor);
}

/* Whether a rule is there at all, on this machine and without capabilities. */
static bool applies(struct reader *reader, const struct json *rule)
{
    const struct json *includes = json_given(json_get(rule, "includes"));
    const struct json *excludes = json_given(json_get(rule, "excludes"));
    const struct json *caps = json_given(json_get(includes, "caps"));
    const struct json *arches = json_given(json_get(includes, "arches"));
    const struct json *kernel = json_given(json_get(includes, "minKernel"));
    const struct json *excluded_kernel = json_given(json_get(excludes, "minKernel"));
    for (const struct json *cap = json_first(caps); cap; cap = json_next(cap)) {
        draft_note(reader->draft, "what the profile gives programs that have it; none has", "%s",
                   json_string(cap) ? json_string(cap) : "capabilities");
    }
    bool here = list_has(arches, docker_architecture()) || list_has(arches, policy_native_architecture());
    return json_count(caps) == 0 && (json_count(arches) == 0 || here) &&
           !(kernel && kernel_is_older(json_string(kernel))) &&
           !(excluded_kernel && !kernel_is_older(json_string(excluded_kernel))) &&
           !list_has(json_get(excludes, "arches"), docker_architecture()) &&
           !list_has(json_get(excludes, "arches"), policy_native_architecture());
}

static int read_comparison(struct reader *reader, const struct json *arg, struct clauses *ret)
{
    static const struct {
        const char *name;
        enum seccomp_op op;
    } rows[] = {{"SCMP_CMP_EQ", OP_EQ},
                {"SCMP_CMP_NE", OP_NE},
                {"SCMP_CMP_LT", OP_LT},
                {"SCMP_CMP_LE", OP_LE},
                {"SCMP_CMP_GT", OP_GT},
                {"SCMP_CMP_GE", OP_GE},
                {"SCMP_CMP_MASKED_EQ", OP_MASKED_EQ}};
    uint64_t index, value, second = 0;
    const struct json *two = json_given(json_get(arg, "valueTwo"));
    const char *op = json_string(json_get(arg, "op"));
    if (!json_u64(json_get(arg, "index"), &index) || index > 5) {
        return fail_at(reader, arg, "args.index: must be 0 to 5");
    }
    if (!json_u64(json_get(arg, "value"), &value) || (two && !json_u64(two, &second))) {
        return fail_at(reader, arg, "args.value: must be a whole number of 64 bits");
    }
    for (size_t i = 0; op && i < ARRAY_SIZE(rows); i++) {
        if (strcmp(rows[i].name, op) == 0) {
            bool masked = rows[i].op == OP_MASKED_EQ;
            struct seccomp_condition condition = {.arg = (uint32_t)index,
                                                  .op = rows[i].op,
                                                  .mask = masked ? value : 0,
                                                  .value = masked ? second : value};
            clauses_compare(ret, &condition);
            return 0;
        }
    }
    return fail_at(reader, arg, "args.op: is no comparison (SCMP_CMP_EQ, SCMP_CMP_MASKED_EQ, ...)");
}

/* All have to hold; but where two are about one argument, any of them, as runtimes have it. */
static int read_args(struct reader *reader, const struct json *args, struct clauses *ret)
{
    bool seen[6] = {false}, any = false;
    struct clauses one;
    for (const struct json *arg = json_first(args); arg; arg = json_next(arg)) {
        uint64_t index = 0;
        if (json_u64(json_get(arg, "index"), &index) && index < 6) {
            any |= seen[index];
            seen[index] = true;
        }
    }
    clauses_set(ret, !any || json_count(args) == 0);
    for (const struct json *arg = json_first(args); arg; arg = json_next(arg)) {
        int r = read_comparison(reader, arg, &one);
        if (r < 0) {
            return r;
        }
        if (any) {
            clauses_or(ret, &one);
        } else {
            clauses_and(ret, &one);
        }
    }
    return 0;
}

static int add_names(struct reader *reader, const struct json *rule, struct verdict verdict,
                     const struct clauses *when)
{
    const struct json *names = json_given(json_get(rule, "names")), *name = json_get(rule, "name");
    if (json_string(name)) {
        draft_rule(reader->draft, draft_printf(reader->draft, "%s", json_string(name)), verdict, when);
    } else if (json_type_of(names) != JSON_ARRAY) {
        return fail_at(reader, rule, "names: must be a list of system calls");
    }
    for (const struct json *item = json_first(names); item; item = json_next(item)) {
        if (!json_string(item)) {
            return fail_at(reader, item, "names: must be a list of system calls");
        }
        draft_rule(reader->draft, draft_printf(reader->draft, "%s", json_string(item)), verdict, when);
    }
    return 0;
}

static int read_rule(struct reader *reader, const struct json *rule, bool denials)
{
    uint32_t code = reader->errno_code;
    struct verdict verdict = {0};
    struct clauses when;
    if (json_type_of(rule) != JSON_OBJECT) {
        return fail_at(reader, rule, "syscalls: must be a list of objects");
    }
    int r = read_errno(reader, json_get(rule, "errnoRet"), json_get(rule, "errno"), &code);
    r = r < 0 ? r : read_action(reader, json_get(rule, "action"), code, &verdict);
    bool allows = verdict.kind == ACTION_ALLOW || verdict.kind == ACTION_LOG;
    if (r < 0 || allows == denials || !applies(reader, rule)) {
        return r;
    }
    r = read_args(reader, json_given(json_get(rule, "args")), &when);
    return r < 0 ? r : add_names(reader, rule, verdict, &when);
}

static int read_rules(struct reader *reader, const struct json *rules)
{
    for (int denials = 1; denials >= 0; denials--) {
        for (const struct json *rule = json_first(rules); rule; rule = json_next(rule)) {
            int r = read_rule(reader, rule, denials);
            if (r < 0) {
                return r;
            }
        }
    }
    return 0;
}

/* Architectures: this machine's must be among them; calls of any other are never made. */
static int check_architectures(struct reader *reader, const struct json *profile)
{
    const struct json *list = json_given(json_get(profile, "architectures"));
    bool here = json_count(list) == 0;
    char mine[64];
    snprintf(mine, sizeof mine, "SCMP_ARCH_%s", policy_native_architecture());
    for (const struct json *item = json_first(list); item; item = json_next(item)) {
        const char *name = json_string(item);
        if (name && strcasecmp(name, mine) == 0) {
            here = true;
        } else if (name) {
            draft_note(reader->draft, "calls of another ABI bring SIGSYS", "%s", name);
        }
    }
    return here ? 0 : fail_at(reader, list, "architectures: this machine's is not among them");
}

/* Members beside those that are read, by name. */
static void note_members(struct reader *reader, const struct json *object, const char *const *known,
                         const char *where)
{
    for (const struct json *member = json_first(object); member; member = json_next(member)) {
        size_t i = 0;
        while (known[i] && strcmp(known[i], json_key(member)) != 0) {
            i++;
        }
        if (!known[i]) {
            draft_note(reader->draft, "no counterpart is read", "%s%.80s", where, json_key(member));
        }
    }
}

static int read_profile(struct reader *reader, const struct json *profile)
{
    static const char *const known[] = {"defaultAction", "defaultErrnoRet", "defaultErrno", "architectures",
                                        "archMap",       "syscalls",        "comment",      NULL};
    struct verdict otherwise;
    reader->errno_code = EPERM;
    if (json_type_of(profile) != JSON_OBJECT) {
        return fail_at(reader, profile, "linux.seccomp: must be an object");
    }
    int r = check_architectures(reader, profile);
    r = r < 0 ? r
              : read_errno(reader, json_get(profile, "defaultErrnoRet"), json_get(profile, "defaultErrno"),
                           &reader->errno_code);
    r = r < 0 ? r : read_action(reader, json_get(profile, "defaultAction"), reader->errno_code, &otherwise);
    if (r < 0) {
        return r;
    }
    const struct json *rules = json_given(json_get(profile, "syscalls"));
    if (rules && json_type_of(rules) != JSON_ARRAY) {
        return fail_at(reader, rules, "syscalls: must be a list");
    }
    reader->draft->otherwise = otherwise;
    reader->errno_code = EPERM;
    note_members(reader, profile, known, "");
    return read_rules(reader, rules);
}

int import_oci(struct draft *draft, struct err *reterr)
{
    static const char *const read[] = {"linux", "ociVersion", NULL}, *const seccomp[] = {"seccomp", NULL};
    CLEANUP(doc_freep) struct json_doc *doc = NULL;
    struct reader reader = {.draft = draft, .err = reterr};
    draft->host_files = true;
    int r = json_parse_file(draft->request->path, draft->request->text, draft->request->size, &doc, reterr);
    if (r < 0) {
        return r;
    }
    const struct json *root = json_root(doc), *linux_part = json_given(json_get(root, "linux"));
    if (json_get(root, "defaultAction")) {
        return read_profile(&reader, root);
    }
    const struct json *profile = json_get(linux_part ? linux_part : root, "seccomp");
    if (!json_given(profile)) {
        return fail_at(&reader, root, "has neither defaultAction nor linux.seccomp in it");
    }
    note_members(&reader, linux_part ? root : NULL, read, "");
    note_members(&reader, linux_part, seccomp, "linux.");
    return read_profile(&reader, profile);
}
