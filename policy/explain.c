/* `immure policy explain`: a policy in words: what it limits, what its filter decides and why, and the plan
 * that a job gets. Stable text; the golden tests compare it. */
#include "policy/policy.h"

#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>

#include "config/format/amount.h"
#include "config/message/egress.h"
#include "config/policy/constants.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/plan/plan.h"
#include "policy/compiled.h"
#include "policy/filter/conditions.h"
#include "policy/filter/errno_names.h"
#include "policy/filter/names.h"
#include "policy/filter/syscall_sets.h"

#define LINE_WIDTH 110u

static void plan_freep(struct jail_plan **plan)
{
    jail_plan_free(*plan);
}

static void put_header(const struct policy *policy, struct buf *ret)
{
    const struct policy_spec *spec = policy->spec;
    buf_printf(ret, "policy %s (%s)\n", spec->name, spec->origin);
    if (spec->description && *spec->description) {
        buf_printf(ret, "%s\n", spec->description);
    }
    if (spec->state == POLICY_STATE_KERNEL) {
        buf_puts(ret,
                 "state KERNEL: the jobs of a session are calls of one interpreter, which has these limits "
                 "as a whole\n");
    }
    if (spec->approval != APPROVAL_NEVER) {
        buf_puts(ret, spec->approval == APPROVAL_ALWAYS
                          ? "approval ALWAYS: an approver has to agree to each job\n"
                          : "approval FIRST_USE: an approver has to agree to the first job of each team\n");
    }
}

/* An rlimit of the policy's own holds whatever `limits` says. */
static bool limits_address_space(const struct policy_spec *spec)
{
    bool limited = spec->limits.address_space;
    for (size_t i = 0; i < spec->n_rlimits; i++) {
        limited |= spec->rlimits[i].resource == RLIMIT_AS && spec->rlimits[i].soft != UINT64_MAX;
    }
    return limited;
}

static void put_limit_rows(const struct policy *policy, struct buf *ret)
{
    const struct policy_spec *spec = policy->spec;
    const struct policy_limits *limits = &spec->limits;
    const struct {
        const char *word;
        uint64_t value;
        const char *after, *none;
        enum amount_unit unit;
    } rows[] = {
        {"memory", limits->memory_bytes, "", NULL, AMOUNT_BYTES},
        {"processes and threads", limits->pids, "", NULL, AMOUNT_PLAIN},
        {"CPU", limits->cpu_percent, "% of one CPU", NULL, AMOUNT_PLAIN},
        {"CPU time", limits->cpu_ms, "", "not limited but by the wall clock", AMOUNT_TIME},
        {"wall clock", limits->timeout_ms, "", "the server's", AMOUNT_TIME},
        {"scratch", limits->scratch_bytes, "", NULL, AMOUNT_BYTES},
        {"scratch files", limits->scratch_inodes, "", NULL, AMOUNT_PLAIN},
        {"stdout, stderr", limits->output_bytes, "each", NULL, AMOUNT_BYTES},
        {"output files listed", limits->output_files, "", NULL, AMOUNT_PLAIN},
        {"output file returned", limits->output_file_bytes, "", NULL, AMOUNT_BYTES},
        {"file locks", policy->filter.locks ? limits->file_locks : 0, "", "not counted: none, or any number",
         AMOUNT_PLAIN},
    };
    buf_puts(ret, "\nlimits of a job\n");
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (rows[i].value == 0 && rows[i].none) {
            buf_printf(ret, "  %-22s %s\n", rows[i].word, rows[i].none);
        } else {
            char amount[AMOUNT_TEXT_MAX];
            buf_printf(ret, "  %-22s %s%s%s\n", rows[i].word,
                       amount_print(rows[i].unit, rows[i].value, amount), *rows[i].after ? " " : "",
                       rows[i].after);
        }
    }
    if (!limits_address_space(spec)) {
        buf_puts(ret, "  address space          not limited, with a cgroup or without\n");
    }
}

/* The policy's own; those that follow from `limits` are in the plan. */
static void put_rlimits(const struct policy_spec *spec, struct buf *ret)
{
    for (size_t i = 0; i < spec->n_rlimits; i++) {
        const struct policy_rlimit *rlimit = &spec->rlimits[i];
        enum amount_unit unit = policy_rlimit_unit(rlimit->resource);
        uint64_t factor = unit == AMOUNT_TIME ? 1000 : 1;
        const char *name = constant_name("resource", rlimit->resource);
        char amount[AMOUNT_TEXT_MAX];
        bool large = rlimit->soft > UINT64_MAX / factor;
        buf_printf(ret, "  %-22s %s", name ? name : "",
                   amount_print(unit, large ? UINT64_MAX : rlimit->soft * factor, amount));
        if (rlimit->hard != rlimit->soft) {
            large = rlimit->hard > UINT64_MAX / factor;
            buf_printf(ret, ", at most %s",
                       amount_print(unit, large ? UINT64_MAX : rlimit->hard * factor, amount));
        }
        buf_putc(ret, '\n');
    }
}

void policy_answer_print(struct policy_answer answer, struct buf *ret)
{
    static const char *const words[] = {
        [ACTION_ALLOW] = "ALLOW", [ACTION_ERRNO] = "ERRNO",   [ACTION_KILL_PROCESS] = "KILL_PROCESS",
        [ACTION_LOG] = "LOG",     [ACTION_NOTIFY] = "NOTIFY", [ACTION_COUNT] = "COUNT",
    };
    buf_puts(ret, words[answer.action]);
    if (answer.action == ACTION_ERRNO) {
        const char *name = strerrorname_np((int)answer.error);
        if (name) {
            buf_printf(ret, " %s", name);
        } else {
            buf_printf(ret, " %u", answer.error);
        }
    }
}

static void put_answer(enum seccomp_action_kind action, const char *errno_name, struct buf *ret)
{
    const struct policy_answer answer = {.action = action, .error = policy_errno_number(errno_name)};
    policy_answer_print(answer, ret);
}

void policy_print_wrapped(const char *word, int indent, size_t *column, struct buf *ret)
{
    if (*column == 0 || *column + 1 + strlen(word) > LINE_WIDTH) {
        buf_printf(ret, "%s%*s", *column == 0 ? "" : "\n", indent - 1, "");
        *column = (size_t)indent - 1;
    }
    buf_printf(ret, " %s", word);
    *column += 1 + strlen(word);
}

/* A member of a set, as a word: "read", or "setsockopt(SOL_SOCKET, SO_KEEPALIVE)". */
static const char *shown_call(const char *name, const struct syscall_row *row, char *ret, size_t size)
{
    if (!row || !row->shown) {
        return name;
    }
    snprintf(ret, size, "%s(%s)", name, row->shown);
    return ret;
}

/* The calls that one rule decides about, wrapped; each once, whatever choices its `where` gives. */
static void put_calls(const struct policy *policy, uint32_t number, struct buf *ret)
{
    const struct policy_filter *filter = &policy->filter;
    size_t column = 0;
    for (size_t i = 0; i < filter->n_entries; i++) {
        const struct filter_entry *entry = &filter->entries[i];
        bool again = i > 0 && entry->row == 0 && entry[-1].nr == entry->nr &&
                     policy->spec->rules[entry[-1].rule].number == number;
        if (policy->spec->rules[entry->rule].number == number && !again) {
            char name[64], shown[256];
            policy_syscall_name(policy_native_arch(), entry->nr, name, sizeof name);
            const struct syscall_row *row = entry->row > 0 ? &syscall_sets()[entry->row] : NULL;
            policy_print_wrapped(shown_call(name, row, shown, sizeof shown), 6, &column, ret);
        }
    }
    buf_puts(ret, column == 0 ? "      none on this architecture\n" : "\n");
}

static void put_filter(const struct policy *policy, struct buf *ret)
{
    const struct policy_spec *spec = policy->spec;
    buf_puts(ret, "\nsystem calls: ");
    put_answer(spec->seccomp_default, spec->seccomp_default_errno, ret);
    buf_printf(ret, " but for what follows; calls of any ABI but %s are never made (SIGSYS)\n",
               policy_native_architecture());
    for (size_t i = 0; i < spec->n_rules; i++) {
        const struct seccomp_rule *rule = &spec->rules[i];
        if (i > 0 && rule->number == rule[-1].number) {
            continue;
        }
        buf_printf(ret, "%4" PRIu32 " ", rule->number);
        put_answer(rule->action, rule->errno_name, ret);
        if (rule->n_conditions > 0) {
            buf_putc(ret, ' ');
            conditions_print(rule, ret);
        }
        buf_printf(ret, "%s%s\n", rule->reason ? ": " : "", rule->reason ? rule->reason : "");
        for (size_t n = 0; n < rule->n_sets; n++) {
            const struct syscall_row *set = syscall_set_find(rule->sets[n]);
            buf_printf(ret, "      %s: %s\n", set->name, set->reason);
        }
        put_calls(policy, rule->number, ret);
    }
}

static void put_images(const struct policy_spec *spec, struct buf *ret)
{
    if (*spec->image) {
        buf_printf(ret, "\nthe root is the image %s\n", spec->image);
    }
    if (spec->n_images > 0) {
        buf_puts(ret, "\nimages that a request may choose:");
        for (size_t i = 0; i < spec->n_images; i++) {
            buf_printf(ret, " %s", spec->images[i]);
        }
        buf_putc(ret, '\n');
    }
}

static void put_egress(const struct policy_spec *spec, struct buf *ret)
{
    if (spec->n_egress > 0) {
        buf_puts(ret, "\nhosts that programs may reach:\n");
    }
    for (size_t i = 0; i < spec->n_egress; i++) {
        buf_puts(ret, "  ");
        egress_rule_print(&spec->egress[i], ret);
        buf_putc(ret, '\n');
    }
}

static void put_environment(const struct policy_spec *spec, struct buf *ret)
{
    buf_puts(ret, "\nvariables that a request may set:");
    for (size_t i = 0; i < spec->n_env_allow; i++) {
        buf_printf(ret, " %s", spec->env_allow[i]);
    }
    buf_puts(ret, spec->n_env_allow ? "\n" : " none\n");
}

int policy_explain(const struct policy *policy, struct buf *ret, struct err *reterr)
{
    char path[] = "/program";
    char *const argv[] = {path};
    const struct policy_image image = {.name = policy->spec->image};
    const struct policy_program program = {
        .argv = argv, .n_argv = 1, .proxy = true, .image = *policy->spec->image ? &image : NULL};
    const struct policy_ceilings ceilings = {.cgroup = true, .landlock_abi = JAIL_LANDLOCK_NEWEST};
    const struct job job = {0};
    CLEANUP(plan_freep) struct jail_plan *plan = NULL;
    int r = policy_build_plan(policy, &ceilings, &job, &program, &plan, reterr);
    if (r < 0) {
        return r;
    }
    put_header(policy, ret);
    put_limit_rows(policy, ret);
    put_rlimits(policy->spec, ret);
    put_environment(policy->spec, ret);
    put_egress(policy->spec, ret);
    put_images(policy->spec, ret);
    put_filter(policy, ret);
    buf_puts(ret, "\nplan of a job that runs /program\n");
    jail_plan_print(plan, ret);
    return 0;
}

void policy_print_names(struct buf *ret)
{
    const struct named_argument *argument;
    for (size_t i = 0; (argument = argument_row(i)); i++) {
        buf_printf(ret, "%s %" PRIu32 " %s", argument->call, argument->number, argument->name);
        size_t column = 0;
        const char *name;
        for (size_t n = 0; argument->kind && (name = constant_row(argument->kind, n)); n++) {
            if (n == 0) {
                buf_putc(ret, '\n');
            }
            policy_print_wrapped(name, 4, &column, ret);
        }
        buf_putc(ret, '\n');
    }
}

void policy_print_sets(struct buf *ret)
{
    for (const struct syscall_row *set = syscall_sets(); set->name; set++) {
        if (!set->reason) {
            continue;
        }
        buf_printf(ret, "%s%s: %s\n", set->name,
                   set->kind == SET_DANGER ? " (never allowed by a shipped policy)" : "", set->reason);
        size_t column = 0;
        for (const struct syscall_row *call = syscall_set_next(set); call; call = syscall_set_next(call)) {
            char shown[256];
            policy_print_wrapped(shown_call(call->name, call, shown, sizeof shown), 4, &column, ret);
        }
        buf_putc(ret, '\n');
    }
}
