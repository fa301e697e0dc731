/* Compiles a policy's seccomp rules to BPF. Runs in the warden and on the command line, never in a jail.
 *
 * What must hold: a call that no rule allows gets the default action; a call of a foreign ABI is not made but
 * brings SIGSYS, because the same number means another call there; no rule is silently lost. libseccomp drops
 * conditional rules of a call that also has an unconditional one and leaves open which of two overlapping
 * rules wins, so both are refused before (policy/filter/filter.c); and it is not given what it compiles
 * wrongly (policy/filter/chain.c). */
#include "policy/filter/seccomp.h"

#include <errno.h>
#include <linux/filter.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "config/format/suggest.h"
#include "config/policy/policy_file.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "policy/filter/chain.h"
#include "policy/filter/conditions.h"
#include "policy/filter/errno_names.h"
#include "policy/filter/filter.h"
#include "policy/filter/names.h"
#include "policy/filter/squeeze.h"

/* Seccomp features as of Linux 4.14 + user notification (5.0). Said outright instead of probed: the probe
 * makes seccomp calls of its own, which the filter of a container around us may answer wrongly. */
#define LIBSECCOMP_API_LEVEL 5u

static void context_releasep(scmp_filter_ctx *context)
{
    if (*context) {
        seccomp_release(*context);
    }
}

static uint32_t rule_action(const struct seccomp_rule *rule)
{
    return seccomp_answer(rule->action, rule->errno_name);
}

/* libseccomp resolves names and lists none; what it does not know yet is not offered. */
static const char *architecture_did_you_mean(const char *name)
{
    static const char *const known[] = {
        "x86_64", "x86",    "x32",     "arm",      "aarch64",   "loongarch64", "m68k",   "riscv64",
        "mips",   "mipsel", "mips64",  "mipsel64", "mips64n32", "mipsel64n32", "parisc", "parisc64",
        "ppc",    "ppc64",  "ppc64le", "s390",     "s390x",     "sh",          "sheb",
    };
    struct suggestion suggestion = SUGGESTION_FOR(name, strlen(name));
    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        if (seccomp_arch_resolve_name(known[i]) != 0) {
            suggestion_offer(&suggestion, known[i]);
        }
    }
    return suggestion.best;
}

/* The native architecture must be among those that the policy was written for, and a foreign ABI of the same
 * machine cannot be: its calls are never filtered, they bring SIGSYS. */
static int check_architectures(const struct policy_spec *spec, struct err *reterr)
{
    bool native = spec->n_architectures == 0;
    static const struct {
        uint32_t native, foreign;
    } compatible[] = {
        {SCMP_ARCH_X86_64, SCMP_ARCH_X86},  {SCMP_ARCH_X86_64, SCMP_ARCH_X32},
        {SCMP_ARCH_AARCH64, SCMP_ARCH_ARM}, {SCMP_ARCH_S390X, SCMP_ARCH_S390},
        {SCMP_ARCH_PPC64, SCMP_ARCH_PPC},
    };
    for (size_t i = 0; i < spec->n_architectures; i++) {
        const char *name = spec->architectures[i];
        const struct source_position *at = i == 0 ? &spec->architectures_at : &spec->seccomp_at;
        uint32_t token = seccomp_arch_resolve_name(name);
        if (token == 0) {
            char words[POLICY_NO_SUCH_MAX];
            return policy_bad(spec, at, reterr, "seccomp architecture %s: %s", name,
                              policy_no_such("architecture", architecture_did_you_mean(name), words));
        }
        for (size_t n = 0; n < ARRAY_SIZE(compatible); n++) {
            if (compatible[n].native == policy_native_arch() && compatible[n].foreign == token) {
                return policy_bad(spec, at, reterr,
                                  "seccomp architecture %s: calls of a foreign ABI cannot be allowed on %s",
                                  name, policy_native_architecture());
            }
        }
        native |= token == policy_native_arch();
    }
    if (!native) {
        return policy_bad(spec, &spec->architectures_at, reterr,
                          "seccomp architecture: this machine's, %s, is not among those listed",
                          policy_native_architecture());
    }
    return 0;
}

static int new_context(const struct policy_spec *spec, uint32_t default_action, scmp_filter_ctx *ret,
                       struct err *reterr)
{
    CLEANUP(context_releasep) scmp_filter_ctx context = seccomp_init(default_action);
    if (!context) {
        return err_set(reterr, ERR_INTERNAL, ENOMEM, spec->origin, "seccomp: libseccomp gives no filter");
    }
    const struct {
        enum scmp_filter_attr attribute;
        uint32_t value;
    } attributes[] = {
        /* SIGSYS, as KILL_PROCESS has it, but without a line in the host's audit log for each: a program
         * could write thousands. One that handles the signal goes on; the call is not made. */
        {SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_TRAP},
        {SCMP_FLTATR_CTL_OPTIMIZE, 2}, /* a binary tree: the filter runs on every call of the program */
    };
    for (size_t i = 0; i < ARRAY_SIZE(attributes); i++) {
        int r = seccomp_attr_set(context, attributes[i].attribute, attributes[i].value);
        if (r < 0) {
            return err_errno(reterr, -r, "setting an attribute of the filter");
        }
    }
    *ret = TAKE_PTR(context);
    return 0;
}

static struct scmp_arg_cmp comparison(const struct seccomp_condition *condition)
{
    static const enum scmp_compare ops[] = {
        [OP_EQ] = SCMP_CMP_EQ,
        [OP_NE] = SCMP_CMP_NE,
        [OP_LT] = SCMP_CMP_LT,
        [OP_LE] = SCMP_CMP_LE,
        [OP_GT] = SCMP_CMP_GT,
        [OP_GE] = SCMP_CMP_GE,
        [OP_MASKED_EQ] = SCMP_CMP_MASKED_EQ,
    };
    struct scmp_arg_cmp cmp = {.arg = condition->arg, .op = ops[condition->op], .datum_a = condition->value};
    if (condition->op == OP_MASKED_EQ) {
        cmp.datum_a = condition->mask;
        cmp.datum_b = condition->value;
    }
    return cmp;
}

static int add_rule(const struct policy_spec *spec, const struct filter_entry *entry, uint32_t action,
                    unsigned n_comparisons, const struct scmp_arg_cmp *comparisons, scmp_filter_ctx context,
                    struct err *reterr)
{
    int r = seccomp_rule_add_exact_array(context, action, entry->nr, n_comparisons, comparisons);
    if (r < 0) {
        char name[64];
        policy_syscall_name(policy_native_arch(), entry->nr, name, sizeof name);
        return policy_bad(spec, &spec->rules[entry->rule].at, reterr, "seccomp rule %u (%s): %s",
                          spec->rules[entry->rule].number, name, strerror(-r));
    }
    return 0;
}

static int add_rules(const struct policy_spec *spec, const struct filter_entry *entries, size_t n,
                     uint32_t default_action, scmp_filter_ctx context, struct err *reterr)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        const struct seccomp_rule rule = policy_filter_rule(spec, &entries[i]);
        if (rule_action(&rule) == default_action) {
            continue; /* what happens anyway; libseccomp refuses such rules */
        }
        struct scmp_arg_cmp comparisons[SECCOMP_ARGS];
        for (size_t c = 0; c < rule.n_conditions; c++) {
            comparisons[c] = comparison(&rule.conditions[c]);
        }
        r = add_rule(spec, &entries[i], rule_action(&rule), (unsigned)rule.n_conditions, comparisons, context,
                     reterr);
    }
    return r;
}

/* How many entries, from the first on, are of its call. */
static size_t count_of_call(const struct filter_entry *entries, size_t n)
{
    size_t count = 0;
    while (count < n && entries[count].nr == entries[0].nr) {
        count++;
    }
    return count;
}

/* Calls that need a chain get an answer that no rule can give, with the chain's number: a place to be filled.
 */
static int add_calls(const struct policy_spec *spec, const struct policy_filter *filter,
                     uint32_t default_action, scmp_filter_ctx context, struct err *reterr)
{
    int r = 0;
    unsigned chain = 0;
    for (size_t i = 0, n; r == 0 && i < filter->n_entries; i += n) {
        const struct filter_entry *entries = &filter->entries[i];
        n = count_of_call(entries, filter->n_entries - i);
        r = chain_is_needed(spec, entries, n)
                ? add_rule(spec, entries, SCMP_ACT_TRACE(chain++), 0, NULL, context, reterr)
                : add_rules(spec, entries, n, default_action, context, reterr);
    }
    return r;
}

/* Lets all places of a chain lead to its beginning, behind the filter's end. */
static void lead_to_chain(struct policy_filter *filter, unsigned chain)
{
    for (uint32_t i = 0; i < filter->length; i++) {
        struct sock_filter *insn = &filter->instructions[i];
        if (insn->code == (BPF_RET | BPF_K) && insn->k == SCMP_ACT_TRACE(chain)) {
            *insn = (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, filter->length - i - 1);
        }
    }
}

static int too_long(const struct policy_spec *spec, size_t length, struct err *reterr)
{
    return policy_bad(spec, &spec->seccomp_at, reterr,
                      "seccomp: the filter has %zu instructions; the kernel takes up to %d", length,
                      BPF_MAXINSNS);
}

static int append_chains(const struct policy_spec *spec, struct policy_filter *filter, struct err *reterr)
{
    unsigned chain = 0;
    for (size_t i = 0, n; i < filter->n_entries; i += n) {
        const struct filter_entry *entries = &filter->entries[i];
        n = count_of_call(entries, filter->n_entries - i);
        if (!chain_is_needed(spec, entries, n)) {
            continue;
        }
        size_t length = filter->length + chain_write(spec, entries, n, NULL, 0);
        if (length > BPF_MAXINSNS) {
            return too_long(spec, length, reterr);
        }
        struct sock_filter *longer = realloc(filter->instructions, length * sizeof *longer);
        if (!longer) {
            return err_errno(reterr, ENOMEM, "compiling the filter");
        }
        filter->instructions = longer;
        lead_to_chain(filter, chain++);
        chain_write(spec, entries, n, &longer[filter->length], length - filter->length);
        filter->length = (uint32_t)length;
    }
    return 0;
}

/* libseccomp writes BPF to descriptors only. */
static int export(const struct policy_spec *spec, scmp_filter_ctx context, struct policy_filter *filter,
                  struct err *reterr)
{
    CLEANUP(fd_closep) int fd = memfd_create("bpf", MFD_CLOEXEC);
    if (fd < 0) {
        return err_errno(reterr, errno, "exporting the filter");
    }
    int r = seccomp_export_bpf(context, fd);
    if (r < 0) {
        return err_errno(reterr, -r, "exporting the filter");
    }
    off_t size = lseek(fd, 0, SEEK_END);
    size_t length = size > 0 ? (size_t)size / sizeof(struct sock_filter) : 0;
    if (length == 0 || length > BPF_MAXINSNS || lseek(fd, 0, SEEK_SET) < 0) {
        return too_long(spec, length, reterr);
    }
    filter->instructions = malloc((size_t)size);
    if (!filter->instructions || io_read_full(fd, filter->instructions, (size_t)size) != size) {
        return err_errno(reterr, ENOMEM, "exporting the filter");
    }
    filter->length = (uint32_t)length;
    return 0;
}

/* Turns the entries of `filter`, which do not contradict each other, into its instructions. */
static int assemble(const struct policy_spec *spec, struct policy_filter *filter, struct err *reterr)
{
    seccomp_api_set(LIBSECCOMP_API_LEVEL);
    uint32_t default_action = seccomp_answer(spec->seccomp_default, spec->seccomp_default_errno);
    CLEANUP(context_releasep) scmp_filter_ctx context = NULL;
    int r = new_context(spec, default_action, &context, reterr);
    r = r < 0 ? r : add_calls(spec, filter, default_action, context, reterr);
    r = r < 0 ? r : export(spec, context, filter, reterr);
    r = r < 0 ? r : append_chains(spec, filter, reterr);
    if (r == 0) {
        filter_squeeze(filter->instructions, &filter->length, policy_native_arch());
    }
    return r;
}

int policy_filter_compile(const struct policy_spec *spec, struct policy_filter *ret, struct err *reterr)
{
    CLEANUP(policy_filter_clear) struct policy_filter filter = {0};
    const char *name = spec->seccomp_default_errno;
    if (policy_errno_number(name) == 0) {
        char words[POLICY_NO_SUCH_MAX];
        return policy_bad(spec, &spec->default_errno_at, reterr, "seccomp default_errno %s: %s", name,
                          policy_no_such("errno", policy_errno_did_you_mean(name), words));
    }
    int r = check_architectures(spec, reterr);
    r = r < 0 ? r : policy_filter_decide(spec, &filter, reterr);
    r = r < 0 ? r : assemble(spec, &filter, reterr);
    if (r < 0) {
        return r;
    }
    *ret = filter;
    filter = (struct policy_filter){0};
    return 0;
}
