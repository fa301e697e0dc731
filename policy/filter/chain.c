/* The rules of one call as a chain of comparisons. Runs where filters are compiled, never in a jail.
 *
 * Why: libseccomp (2.5) makes one tree of all the rules of a call. With EQ and MASKED_EQ it does that well,
 * and a single rule may compare as it likes, but for OP_MASKED_NE, which it does not know; but of several
 * rules, some of which compare for order or difference, it now and then loses a branch or adds one, and a
 * call is allowed that no rule allows. For those, rule after rule is written down here as it stands.
 *
 * What must hold: a rule holds if all its conditions do, as condition_holds() has it. An argument has 64
 * bits, BPF compares 32 of them at a time. */
#include "policy/filter/chain.h"

#include "config/policy/policy_file.h"
#include "jail/base/bpf.h"
#include "policy/filter/filter.h"
#include "policy/filter/names.h"

/* Where a comparison leads: to the next instruction, or to a place that is known when the rule is complete.
 * No rule is so long that a jump in it could be taken for one of them. */
enum { NEXT = 0, PASS = 254, FAIL = 255 };

struct chain {
    struct sock_filter *to;
    size_t room, n;
};

bool chain_is_needed(const struct policy_spec *spec, const struct filter_entry *entries, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct seccomp_rule rule = policy_filter_rule(spec, &entries[i]);
        for (size_t c = 0; c < rule.n_conditions; c++) {
            enum seccomp_op op = rule.conditions[c].op;
            if (op == OP_MASKED_NE || (n > 1 && op != OP_EQ && op != OP_MASKED_EQ)) {
                return true;
            }
        }
    }
    return false;
}

static void put(struct chain *chain, uint16_t code, uint32_t k, uint8_t yes, uint8_t no)
{
    if (chain->n < chain->room) {
        chain->to[chain->n] = (struct sock_filter){.code = code, .jt = yes, .jf = no, .k = k};
    }
    chain->n++;
}

/* From `first` on: what was to be known later is known now. */
static void lead(struct chain *chain, size_t first, uint8_t what, size_t where)
{
    for (size_t i = first; i < chain->n && i < chain->room; i++) {
        struct sock_filter *insn = &chain->to[i];
        if (BPF_CLASS(insn->code) == BPF_JMP) {
            insn->jt = insn->jt == what ? (uint8_t)(where - i - 1) : insn->jt;
            insn->jf = insn->jf == what ? (uint8_t)(where - i - 1) : insn->jf;
        }
    }
}

static uint32_t half_of(uint64_t value, bool high)
{
    return (uint32_t)(high ? value >> 32 : value);
}

static void put_load(struct chain *chain, const struct seccomp_condition *condition, bool high)
{
    put(chain, BPF_DO_LOAD, bpf_argument(condition->arg, high), 0, 0);
    if (condition->op == OP_MASKED_EQ || condition->op == OP_MASKED_NE) {
        put(chain, BPF_DO_AND, half_of(condition->mask, high), 0, 0);
    }
}

/* The upper half decides, unless it is the constant's own. "Below" and its like are the opposite of "at
 * least". */
static void put_condition(struct chain *chain, const struct seccomp_condition *condition)
{
    static const struct {
        uint16_t code;
        bool opposite;
    } ways[] = {
        [OP_EQ] = {BPF_IF_EQ, false}, [OP_NE] = {BPF_IF_EQ, true},        [OP_MASKED_EQ] = {BPF_IF_EQ, false},
        [OP_GT] = {BPF_IF_GT, false}, [OP_LE] = {BPF_IF_GT, true},        [OP_GE] = {BPF_IF_GE, false},
        [OP_LT] = {BPF_IF_GE, true},  [OP_MASKED_NE] = {BPF_IF_EQ, true},
    };
    uint16_t code = ways[condition->op].code;
    uint8_t yes = ways[condition->op].opposite ? FAIL : PASS, no = ways[condition->op].opposite ? PASS : FAIL;
    put_load(chain, condition, true);
    if (code != BPF_IF_EQ) {
        put(chain, BPF_IF_GT, half_of(condition->value, true), yes, NEXT);
    }
    put(chain, BPF_IF_EQ, half_of(condition->value, true), NEXT, no);
    put_load(chain, condition, false);
    put(chain, code, half_of(condition->value, false), yes, no);
}

static void put_rule(struct chain *chain, const struct seccomp_rule *rule)
{
    size_t begin = chain->n;
    for (size_t i = 0; i < rule->n_conditions; i++) {
        size_t first = chain->n;
        put_condition(chain, &rule->conditions[i]);
        lead(chain, first, PASS, chain->n);
    }
    put(chain, BPF_DO_RETURN, seccomp_answer(rule->action, rule->errno_name), 0, 0);
    lead(chain, begin, FAIL, chain->n);
}

size_t chain_write(const struct policy_spec *spec, const struct filter_entry *entries, size_t n,
                   struct sock_filter *ret, size_t room)
{
    struct chain chain = {.to = ret, .room = room};
    for (size_t i = 0; i < n; i++) {
        const struct seccomp_rule rule = policy_filter_rule(spec, &entries[i]);
        put_rule(&chain, &rule);
    }
    put(&chain, BPF_DO_RETURN, seccomp_answer(spec->seccomp_default, spec->seccomp_default_errno), 0, 0);
    return chain.n;
}
