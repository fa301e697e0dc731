/* The same filter in fewer instructions. Runs where filters are compiled: while the program is built, in the
 * warden and on the command line, never in a jail.
 *
 * Why: libseccomp compares with every number that a rule names, some 440 instructions for the shipped list.
 * The kernel checks, converts and compiles them to machine code for every job anew, a tenth of what a jail
 * costs. But the numbers of allowed calls are mostly neighbours. So this asks, for each range of numbers that
 * the filter tells apart, what is left of it once the number is known: an answer, or a few comparisons of
 * arguments. Neighbours with the same rest become one range, and a binary search over the ranges leads to
 * them.
 *
 * What must hold: not one call is answered differently. The ranges are cut at every constant that the filter
 * compares anything with, so within one it cannot tell the numbers apart; an instruction that is not known
 * here, or one that computes with the number, leaves libseccomp's filter in place, and so does a range for
 * which the two answer differently in the end. */
#include "policy/filter/squeeze.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "jail/base/bpf.h"
#include "jail/base/cleanup.h"
#include "jail/base/bpf_run.h"

#define NONE      UINT32_MAX /* no place in the new filter: it has failed */
#define ROOM      BPF_MAXINSNS
#define STEPS_MAX 1000000u /* of the old filter looked at; what takes more is not worth it */
#define JUMP_MAX  250u     /* of a conditional jump, less the two instructions that may come in between */

/* What is known of the accumulator. */
enum knowledge { UNKNOWN, NUMBER, ARCHITECTURE, ZERO };

struct squeeze {
    const struct sock_filter *from;
    uint32_t n_from;
    uint32_t arch;
    bool foreign; /* the call that is looked at has another architecture than `arch` */
    uint32_t nr;  /* and this number */
    uint32_t steps;
    /* The new filter, last instruction first: whatever an instruction leads to is there before it. */
    struct sock_filter to[ROOM];
    uint32_t n_to;
};

/* A range of numbers begins at `first` and ends where the next begins. */
struct range {
    uint32_t first;
    uint32_t rest; /* place in the new filter */
};

static uint32_t put(struct squeeze *s, uint16_t code, uint32_t k, uint32_t jt, uint32_t jf)
{
    if (s->n_to == ROOM) {
        return NONE;
    }
    s->to[s->n_to] = (struct sock_filter){.code = code, .jt = (uint8_t)jt, .jf = (uint8_t)jf, .k = k};
    return s->n_to++;
}

/* Where a place leads in the end. */
static uint32_t follow(const struct squeeze *s, uint32_t place)
{
    return s->to[place].code == BPF_DO_JUMP ? place - 1 - s->to[place].k : place;
}

static bool lead_to_same(const struct squeeze *s, uint32_t place, uint32_t target)
{
    const struct sock_filter *a = &s->to[follow(s, place)], *b = &s->to[target];
    return a == b || (a->code == BPF_DO_RETURN && b->code == BPF_DO_RETURN && a->k == b->k);
}

/* A place that leads to `target` and that the next instruction but two can reach. */
static uint32_t near(struct squeeze *s, uint32_t target)
{
    if (target == NONE || s->n_to - target <= JUMP_MAX) {
        return target;
    }
    target = follow(s, target);
    for (uint32_t place = s->n_to - 1; s->n_to - place <= JUMP_MAX; place--) {
        if (lead_to_same(s, place, target)) {
            return place;
        }
    }
    return s->to[target].code == BPF_DO_RETURN ? put(s, BPF_DO_RETURN, s->to[target].k, 0, 0)
                                               : put(s, BPF_DO_JUMP, s->n_to - 1 - target, 0, 0);
}

static uint32_t put_return(struct squeeze *s, uint32_t answer)
{
    for (uint32_t i = 0; i < s->n_to; i++) {
        if (s->to[i].code == BPF_DO_RETURN && s->to[i].k == answer) {
            return i;
        }
    }
    return put(s, BPF_DO_RETURN, answer, 0, 0);
}

static uint32_t put_jump(struct squeeze *s, uint16_t code, uint32_t k, uint32_t yes, uint32_t no)
{
    if (yes == no || yes == NONE || no == NONE) {
        return yes == no ? yes : NONE;
    }
    for (uint32_t i = 1; i < s->n_to; i++) {
        const struct sock_filter *same = &s->to[i];
        if (same->code == code && same->k == k && i > same->jt && i > same->jf &&
            follow(s, i - 1 - same->jt) == follow(s, yes) && follow(s, i - 1 - same->jf) == follow(s, no)) {
            return i;
        }
    }
    yes = near(s, yes);
    no = near(s, no);
    return yes == NONE || no == NONE ? NONE : put(s, code, k, s->n_to - 1 - yes, s->n_to - 1 - no);
}

/* An instruction that goes on with `next`. */
static uint32_t put_before(struct squeeze *s, uint16_t code, uint32_t k, uint32_t next)
{
    if (next == NONE) {
        return NONE;
    }
    for (uint32_t i = 1; i < s->n_to; i++) {
        if (s->to[i].code == code && s->to[i].k == k && follow(s, i - 1) == follow(s, next)) {
            return i;
        }
    }
    if (next != s->n_to - 1 && put(s, BPF_DO_JUMP, s->n_to - 1 - follow(s, next), 0, 0) == NONE) {
        return NONE;
    }
    return put(s, code, k, 0, 0);
}

/* Whether a comparison with something known holds: 1, 0, or -1 where that is not certain. */
static int holds(const struct squeeze *s, enum knowledge knowledge, uint16_t code, uint32_t k)
{
    if (knowledge == ARCHITECTURE) {
        return code == BPF_IF_EQ && k == s->arch ? !s->foreign : -1;
    }
    if (knowledge == ZERO) {
        return code == BPF_IF_GT ? 0 : k == 0;
    }
    if (s->foreign) {
        return -1; /* looked at for all numbers together */
    }
    return code == BPF_IF_EQ ? s->nr == k : code == BPF_IF_GT ? s->nr > k : s->nr >= k;
}

/* What is left of the old filter from `pc` on, for the call that is looked at: a place in the new one. */
static uint32_t rest_of(struct squeeze *s, uint32_t pc, enum knowledge knowledge)
{
    while (pc < s->n_from && s->steps++ < STEPS_MAX) {
        const struct sock_filter *insn = &s->from[pc++];
        switch (insn->code) {
        case BPF_DO_LOAD:
            if (pc < s->n_from && s->from[pc].code == BPF_DO_AND && s->from[pc].k == 0) {
                knowledge = ZERO; /* the half of an argument that a mask leaves out */
                pc++;
                break;
            }
            if (insn->k != BPF_NUMBER && insn->k != BPF_ARCHITECTURE) {
                return put_before(s, BPF_DO_LOAD, insn->k, rest_of(s, pc, UNKNOWN));
            }
            knowledge = insn->k == BPF_NUMBER ? NUMBER : ARCHITECTURE;
            break;
        case BPF_DO_AND:
            if (knowledge == ZERO) {
                break;
            }
            return knowledge == UNKNOWN ? put_before(s, BPF_DO_AND, insn->k, rest_of(s, pc, UNKNOWN)) : NONE;
        case BPF_DO_JUMP:
            pc += insn->k;
            break;
        case BPF_IF_EQ:
        case BPF_IF_GT:
        case BPF_IF_GE:
            if (knowledge == UNKNOWN) {
                uint32_t no = rest_of(s, pc + insn->jf, UNKNOWN);
                return put_jump(s, insn->code, insn->k, rest_of(s, pc + insn->jt, UNKNOWN), no);
            }
            int yes = holds(s, knowledge, insn->code, insn->k);
            if (yes < 0) {
                return NONE;
            }
            pc += yes ? insn->jt : insn->jf;
            break;
        case BPF_DO_RETURN:
            return put_return(s, insn->k);
        default:
            return NONE;
        }
    }
    return NONE;
}

static int compare_ranges(const void *a, const void *b)
{
    uint32_t x = ((const struct range *)a)->first, y = ((const struct range *)b)->first;
    return (x > y) - (x < y);
}

/* The ranges that the old filter may tell apart: `ranges` has room for two each of its instructions and one.
 */
static size_t cut(const struct squeeze *s, struct range *ranges)
{
    size_t n = 0, kept = 1;
    ranges[n++].first = 0;
    for (uint32_t i = 0; i < s->n_from; i++) {
        uint16_t code = s->from[i].code;
        if (code == BPF_IF_EQ || code == BPF_IF_GT || code == BPF_IF_GE) {
            ranges[n++].first = s->from[i].k;
            ranges[n++].first = s->from[i].k + 1; /* of the last number: 0 */
        }
    }
    qsort(ranges, n, sizeof *ranges, compare_ranges);
    for (size_t i = 1; i < n; i++) {
        if (ranges[i].first != ranges[kept - 1].first) {
            ranges[kept++] = ranges[i];
        }
    }
    return kept;
}

/* Finds what is left for each range, and joins neighbours for which it is the same. Returns how many are
 * left; 0 where the old filter is not understood. */
static size_t join(struct squeeze *s, struct range *ranges, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        s->nr = ranges[i].first;
        ranges[i].rest = rest_of(s, 0, UNKNOWN);
        if (ranges[i].rest == NONE) {
            return 0;
        }
        if (kept == 0 || ranges[i].rest != ranges[kept - 1].rest) {
            ranges[kept++] = ranges[i];
        }
    }
    return kept;
}

/* The search among `n` ranges, with the number in the accumulator. */
static uint32_t put_search(struct squeeze *s, const struct range *ranges, size_t n)
{
    if (n == 1) {
        return ranges[0].rest;
    }
    size_t half = n / 2;
    uint32_t below = put_search(s, ranges, half);
    uint32_t above = put_search(s, ranges + half, n - half);
    return put_jump(s, BPF_IF_GE, ranges[half].first, above, below);
}

static bool same_answers(const struct squeeze *s, const struct sock_filter *to, const struct range *ranges,
                         size_t n)
{
    static const uint8_t fill[] = {0x00, 0x01, 0xff};
    const uint32_t archs[] = {s->arch, ~s->arch};
    struct seccomp_data data;
    for (size_t i = 0; i < n * ARRAY_SIZE(fill) * ARRAY_SIZE(archs); i++) {
        memset(&data, fill[i % ARRAY_SIZE(fill)], sizeof data);
        data.nr = (int)ranges[i / ARRAY_SIZE(fill) % n].first;
        data.arch = archs[i / ARRAY_SIZE(fill) / n];
        if (bpf_run(s->from, s->n_from, &data) != bpf_run(to, s->n_to, &data)) {
            return false;
        }
    }
    return true;
}

/* Makes the new filter, in the order in which it runs. False: stay with the old one. */
static bool rewrite(struct squeeze *s, struct range *ranges, struct range *all, struct sock_filter *ret)
{
    if (s->n_from == 0 || s->from[0].code != BPF_DO_LOAD) {
        return false; /* compares what nobody has loaded */
    }
    size_t n = cut(s, ranges);
    memcpy(all, ranges, n * sizeof *ranges);
    size_t joined = join(s, ranges, n);
    if (joined == 0) {
        return false;
    }
    s->foreign = true;
    s->nr = 0;
    uint32_t refused = rest_of(s, 0, UNKNOWN);
    uint32_t search = put_before(s, BPF_DO_LOAD, BPF_NUMBER, put_search(s, ranges, joined));
    uint32_t start =
        put_before(s, BPF_DO_LOAD, BPF_ARCHITECTURE, put_jump(s, BPF_IF_EQ, s->arch, search, refused));
    if (start == NONE || start != s->n_to - 1 || s->n_to >= s->n_from) {
        return false;
    }
    for (uint32_t i = 0; i < s->n_to; i++) {
        ret[i] = s->to[s->n_to - 1 - i];
    }
    return same_answers(s, ret, all, n);
}

void filter_squeeze(struct sock_filter *instructions, uint32_t *length, uint32_t arch)
{
    size_t room = 2 * (size_t)*length + 1;
    CLEANUP(freep) struct squeeze *s = calloc(1, sizeof *s);
    CLEANUP(freep) struct range *ranges = calloc(2 * room, sizeof *ranges);
    CLEANUP(freep) struct sock_filter *to = calloc(ROOM, sizeof *to);
    if (!s || !ranges || !to) {
        return; /* the filter is as good without */
    }
    s->from = instructions;
    s->n_from = *length;
    s->arch = arch;
    if (rewrite(s, ranges, ranges + room, to)) {
        memcpy(instructions, to, s->n_to * sizeof *to);
        *length = s->n_to;
    }
}
