/* A learned policy as text: which parent, and what is added to it. Runs in the command line. */
#include "policy/learn/learn.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config/policy/policy_file.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "policy/compiled.h"
#include "policy/filter/names.h"
#include "policy/learn/learn_internal.h"
#include "policy/learn/observed.h"
#include "policy/mounts.h"
#include "policy/policy.h"

#define MIB (UINT64_C(1) << 20)

static void policy_freep(struct policy **policy)
{
    policy_free(*policy);
}

const char *learn_candidate(size_t index)
{
    static const char *const candidates[] = {
        "\"debian\", \"processes\", \"scratch\", \"limits\"",
        "\"debian\", \"processes\", \"sockets\", \"scratch\", \"limits\"",
        "\"bash\"",
        "\"python\"",
        "\"node\"",
    };
    return index < ARRAY_SIZE(candidates) ? candidates[index] : NULL;
}

int learn_parent_make(const char *use, struct policy **ret, struct err *reterr)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    struct policy_spec *spec = NULL;
    buf_printf(&text, "name: \"learned\" use: [%s]\n", use);
    if (text.failed) {
        return err_errno(reterr, ENOMEM, "learning a policy");
    }
    int r = policy_spec_decode_text("--use", text.data, text.len, &spec, reterr);
    return r < 0 ? r : policy_compile(spec, ret, reterr);
}

/* A program was executed that is the interpreter which the parent shows. */
static bool runs_interpreter(const struct observed *observed, const struct policy *parent)
{
    char real[PATH_MAX];
    if (parent->spec->interpreter[0] == '\0') {
        return true;
    }
    if (!parent->shown || !parent->shown->interpreter || !realpath(parent->shown->interpreter, real)) {
        return false;
    }
    const struct observed_path *path = observed_find(observed, real);
    return path && path->how & PATH_EXECUTED;
}

int learn_choose(const struct observed *observed, const struct learn_parent *parents, size_t n_parents,
                 size_t *ret, struct err *reterr)
{
    CLEANUP(policy_freep) struct policy *answers = NULL;
    size_t least = SIZE_MAX;
    int r = trace_answers(&answers, reterr);
    for (size_t i = 0; r == 0 && i < n_parents; i++) {
        CLEANUP(buf_free) struct buf text = BUF_INIT;
        struct learn_section section = {.fields = &text, .notes = &text};
        if (!runs_interpreter(observed, parents[i].policy)) {
            continue;
        }
        places_write(observed, parents[i].policy, &section);
        calls_write(observed, parents[i].policy, answers, &section);
        if (section.n_fields < least) {
            least = section.n_fields;
            *ret = i;
        }
    }
    return r;
}

bool learn_saw(const struct observed *observed, const char *call)
{
    int nr = policy_syscall_number(call, NULL);
    bool saw = nr < 0 && observed->foreign;
    for (size_t i = 0; i < observed->n_calls; i++) {
        saw |= observed->calls[i].nr == nr;
    }
    return saw;
}

static void write_head(const struct observed *observed, const struct learn_parent *parent,
                       const struct learn_about *about, struct buf *ret)
{
    size_t n_programs = 0;
    for (size_t i = 0; i < observed->n_paths; i++) {
        n_programs += observed->paths[i].how & PATH_PROGRAM && !(observed->paths[i].how & PATH_REFUSED);
    }
    buf_printf(ret, "# Learned by `immure policy learn` from %zu %s, %" PRIu64 " system calls of %zu %s:\n",
               about->runs, about->runs == 1 ? "run" : "runs", observed->n_answers, n_programs,
               n_programs == 1 ? "program" : "programs");
    buf_puts(ret, "#   ");
    learn_put_text(ret, about->program, strlen(about->program));
    buf_putc(ret, '\n');
    buf_printf(ret, "name: \"%s\"\nuse: [%s]\n", about->name, parent->use);
}

static void write_env(const struct policy_spec *spec, char *const *env, struct buf *ret)
{
    bool without = false;
    for (size_t i = 0; i < spec->n_env; i++) {
        size_t length = strlen(spec->env[i].name);
        bool replaced = false;
        for (char *const *own = env; *own; own++) {
            replaced |= strncmp(spec->env[i].name, *own, length) == 0 && (*own)[length] == '=';
        }
        if (replaced) {
            buf_printf(ret, "%s env: \"%s\"", without ? "" : "without {", spec->env[i].name);
            without = true;
        }
    }
    buf_puts(ret, without ? " }\n" : "");
    for (; *env; env++) {
        int length = (int)strcspn(*env, "=");
        buf_printf(ret, "env { name: \"%.*s\" value: ", length, *env);
        learn_put_quoted(ret, *env + length + 1);
        buf_puts(ret, " }\n");
    }
}

static uint64_t next_power(uint64_t value)
{
    uint64_t power = 1;
    while (power < value) {
        power *= 2;
    }
    return power;
}

/* Twice what was seen, where the parent gives less. */
static void write_limits(const struct observed *observed, const struct policy_spec *spec, struct buf *ret)
{
    const struct policy_limits *limits = &spec->limits;
    uint64_t memory = next_power(2 * observed->memory_peak), pids = next_power(2 * observed->tasks_peak);
    bool address = limits->address_space && 2 * observed->address_peak > limits->memory_bytes;
    if (memory <= limits->memory_bytes && pids <= limits->pids && !address) {
        return;
    }
    buf_printf(ret,
               "\n# Seen: %" PRIu64 " MiB of memory and %" PRIu64
               " MiB of addresses in one process, %u processes and threads.\n",
               observed->memory_peak / MIB, observed->address_peak / MIB, observed->tasks_peak);
    buf_puts(ret, "limits {");
    if (memory > limits->memory_bytes) {
        buf_printf(ret, " memory_bytes: %" PRIu64, memory);
    }
    if (pids > limits->pids) {
        buf_printf(ret, " pids: %" PRIu64, pids);
    }
    buf_puts(ret, address ? " address_space: false }\n" : " }\n");
}

/* The place that the working directory has on the host leads to that which it has in the jail. */
static void write_cwd(const struct observed *observed, const struct policy_spec *spec, struct buf *ret)
{
    const struct policy_mount *over = policy_mount_over(spec, observed->cwd);
    if (!path_problem(observed->cwd) && (!over || over->kind == POLICY_MOUNT_SCRATCH)) {
        buf_puts(ret, "\n# The working directory, as the arguments name it:\nmount { destination: ");
        learn_put_quoted(ret, observed->cwd);
        buf_puts(ret, " symlink { target: ");
        learn_put_quoted(ret, spec->working_directory);
        buf_puts(ret, " } }\n");
    }
}

static void write_left_out(char *const *names, struct buf *ret)
{
    if (*names) {
        buf_puts(ret,
                 "\n# Variables that the caller had and the program did not; --env NAME gives one:\n#  ");
        for (; *names; names++) {
            buf_printf(ret, " %s", *names);
        }
        buf_putc(ret, '\n');
    }
}

int learn_write(const struct observed *observed, const struct learn_parent *parent,
                const struct learn_about *about, struct buf *ret, struct err *reterr)
{
    CLEANUP(policy_freep) struct policy *answers = NULL;
    CLEANUP(buf_free) struct buf mounts = BUF_INIT, rules = BUF_INIT, hidden = BUF_INIT, refused = BUF_INIT;
    struct learn_section places = {.fields = &mounts, .notes = &hidden};
    struct learn_section calls = {.fields = &rules, .notes = &refused};
    int r = trace_answers(&answers, reterr);
    if (r < 0) {
        return r;
    }
    if (observed->full) {
        return err_set(reterr, ERR_INVALID, E2BIG, NULL,
                       "the program makes its calls with more different arguments than can be kept");
    }
    places_write(observed, parent->policy, &places);
    calls_write(observed, parent->policy, answers, &calls);
    write_head(observed, parent, about, ret);
    if (observed->loopback && !parent->policy->spec->loopback) {
        buf_puts(ret, "loopback: true\n");
    }
    write_env(parent->policy->spec, about->env, ret);
    if (mounts.len > 0) {
        buf_printf(ret, "\n%s", mounts.data);
    }
    if (about->names_cwd) {
        write_cwd(observed, parent->policy->spec, ret);
    }
    if (rules.len > 0) {
        buf_printf(ret, "\nseccomp {\n%s}\n", rules.data);
    }
    write_limits(observed, parent->policy->spec, ret);
    if (hidden.len > 0) {
        buf_printf(ret, "\n# Not given:\n%s", hidden.data);
    }
    if (refused.len > 0) {
        buf_printf(ret, "\n# System calls that were made and are not given:\n%s", refused.data);
    }
    if (observed->foreign) {
        buf_puts(
            ret,
            "\n# Calls of another ABI (32 bits, x32) or without a name were made. No jail makes them.\n");
    }
    if (observed->unreadable) {
        buf_puts(ret, "\n# A process let nobody read its memory: the paths that it used are missing here.\n");
    }
    if (observed->n_unnamed > 0) {
        buf_puts(ret,
                 "\n# Paths with control characters in their names were used. No policy can name them.\n");
    }
    if (observed->network) {
        buf_puts(ret, "\n# It tried to connect to other hosts. A jail has no network.\n");
    }
    write_left_out(about->left_out, ret);
    bool failed = observed->failed || mounts.failed || rules.failed || hidden.failed || refused.failed;
    return failed || ret->failed ? err_errno(reterr, ENOMEM, "writing the policy") : 0;
}
