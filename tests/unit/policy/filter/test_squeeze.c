/* policy/filter/squeeze.c: filters of many forms answer as before, whatever the call, and what is not
 * understood stays as it is. That the shipped policies' filters do what their rules say is test_filter.c's.
 */
#include "policy/filter/squeeze.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "jail/base/bpf.h"
#include "jail/base/cleanup.h"
#include "jail/base/bpf_run.h"

#define ARCH      BPF_OUR_ARCHITECTURE
#define LOAD(k)   BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (k))
#define EQ        (BPF_JMP | BPF_JEQ | BPF_K)
#define GE        (BPF_JMP | BPF_JGE | BPF_K)
#define GT        (BPF_JMP | BPF_JGT | BPF_K)
#define ANSWER(k) BPF_STMT(BPF_RET | BPF_K, (k))
#define NR        offsetof(struct seccomp_data, nr)
#define ARCH_AT   offsetof(struct seccomp_data, arch)
#define ARG(n)    ((uint32_t)offsetof(struct seccomp_data, args) + 8 * (n))

struct filter {
    struct sock_filter code[BPF_MAXINSNS];
    uint32_t length;
};

static void add(struct filter *filter, struct sock_filter insn)
{
    assert_true(filter->length < BPF_MAXINSNS);
    filter->code[filter->length++] = insn;
}

static void begin(struct filter *filter)
{
    filter->length = 0;
    add(filter, (struct sock_filter)LOAD(ARCH_AT));
    add(filter, (struct sock_filter)BPF_JUMP(EQ, ARCH, 1, 0));
    add(filter, (struct sock_filter)ANSWER(SECCOMP_RET_KILL_PROCESS));
    add(filter, (struct sock_filter)LOAD(NR));
}

/* The same numbers in every run. */
static uint32_t draw(uint32_t *seed, uint32_t below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

static void assert_same(const struct filter *before, const struct filter *after,
                        const struct seccomp_data *data)
{
    uint32_t want = bpf_run(before->code, before->length, data);
    uint32_t have = bpf_run(after->code, after->length, data);
    if (want != have) {
        fail_msg("call %d, architecture %x, arguments %llx %llx: %x instead of %x", data->nr, data->arch,
                 (unsigned long long)data->args[0], (unsigned long long)data->args[1], have, want);
    }
}

/* Every number that filters here may know and some that none does, with arguments that make a difference. */
static void assert_equivalent(const struct filter *before, const struct filter *after, uint32_t numbers,
                              uint32_t *seed)
{
    static const int far[] = {0x3fffffff, 0x40000000, 0x40000001, 0x7fffffff, -1, -2, -0x7fffffff};
    for (uint32_t i = 0; i < numbers + ARRAY_SIZE(far); i++) {
        for (unsigned n = 0; n < 8; n++) {
            struct seccomp_data data = {.nr = i < numbers ? (int)i : far[i - numbers], .arch = ARCH};
            data.args[0] = draw(seed, 4) | (uint64_t)draw(seed, 2) << 32;
            data.args[1] = draw(seed, 4) | (uint64_t)draw(seed, 2) << 32;
            assert_same(before, after, &data);
            data.arch = n % 2 ? AUDIT_ARCH_I386 : 0;
            assert_same(before, after, &data);
        }
    }
}

/* What the kernel asks of a filter: jumps stay inside, and the end is an answer. */
static void assert_sound(const struct filter *filter)
{
    for (uint32_t i = 0; i < filter->length; i++) {
        const struct sock_filter *insn = &filter->code[i];
        if (BPF_CLASS(insn->code) == BPF_JMP) {
            uint32_t room = filter->length - i - 1;
            assert_true(insn->code == (BPF_JMP | BPF_JA) ? insn->k < room
                                                         : insn->jt < room && insn->jf < room);
        }
    }
    assert_int_equal(filter->code[filter->length - 1].code, BPF_RET | BPF_K);
}

static struct filter *squeezed(const struct filter *before)
{
    struct filter *after = malloc(sizeof *after);
    assert_non_null(after);
    *after = *before;
    filter_squeeze(after->code, &after->length, ARCH);
    assert_sound(after);
    return after;
}

static void test_neighbours(void **state)
{
    (void)state;
    struct filter *filter = calloc(1, sizeof *filter);
    uint32_t seed = 1;
    assert_non_null(filter);
    begin(filter);
    for (uint32_t nr = 0; nr < 200; nr++) {
        if (nr != 77) {
            add(filter, (struct sock_filter)BPF_JUMP(EQ, nr, 0, 1));
            add(filter, (struct sock_filter)ANSWER(nr < 100 ? SECCOMP_RET_ALLOW : SECCOMP_RET_LOG));
        }
    }
    add(filter, (struct sock_filter)ANSWER(SECCOMP_RET_USER_NOTIF));
    CLEANUP(freep) struct filter *after = squeezed(filter);
    assert_equivalent(filter, after, 300, &seed);
    /* Two for the architecture, the number, four cuts, four answers. */
    assert_true(after->length <= 12);
    free(filter);
}

/* One long search with more answers than a conditional jump reaches over, and comparisons of arguments. */
static void test_far_jumps(void **state)
{
    (void)state;
    struct filter *filter = calloc(1, sizeof *filter);
    uint32_t seed = 2;
    assert_non_null(filter);
    begin(filter);
    for (uint32_t nr = 0; nr < 500; nr++) {
        bool conditional = nr % 5 == 0;
        add(filter, (struct sock_filter)BPF_JUMP(EQ, nr, 0, conditional ? 5 : 1));
        if (conditional) {
            add(filter, (struct sock_filter)LOAD(ARG(nr % 2) + 4));
            add(filter, (struct sock_filter)BPF_JUMP(EQ, nr % 3, 0, 2));
            add(filter, (struct sock_filter)LOAD(ARG(nr % 2)));
            add(filter, (struct sock_filter)BPF_JUMP(GE, nr % 4, 0, 0));
        }
        add(filter, (struct sock_filter)ANSWER(SECCOMP_RET_ERRNO | (nr / 3 + 1)));
    }
    add(filter, (struct sock_filter)ANSWER(SECCOMP_RET_ALLOW));
    CLEANUP(freep) struct filter *after = squeezed(filter);
    assert_true(after->length < filter->length);
    assert_equivalent(filter, after, 600, &seed);
    free(filter);
}

/* What a mask leaves out whole is not looked at. */
static void test_empty_masks(void **state)
{
    (void)state;
    struct filter *filter = calloc(1, sizeof *filter);
    uint32_t seed = 4;
    assert_non_null(filter);
    begin(filter);
    add(filter, (struct sock_filter)BPF_JUMP(EQ, 7, 0, 7));
    for (unsigned half = 0; half < 2; half++) {
        add(filter, (struct sock_filter)LOAD(ARG(0) + 4 * (1 - half)));
        add(filter, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, half));
        add(filter, (struct sock_filter)BPF_JUMP(EQ, half, 0, half ? 1 : 4));
    }
    add(filter, (struct sock_filter)ANSWER(SECCOMP_RET_ALLOW));
    add(filter, (struct sock_filter)ANSWER(SECCOMP_RET_USER_NOTIF));
    CLEANUP(freep) struct filter *after = squeezed(filter);
    assert_equivalent(filter, after, 20, &seed);
    assert_true(after->length < filter->length);
    for (uint32_t i = 0; i < after->length; i++) {
        assert_true(after->code[i].code != (BPF_ALU | BPF_AND | BPF_K) || after->code[i].k == 1);
    }
    free(filter);
}

/* Whatever libseccomp may write, in no order that makes sense. */
static void fill_at_random(struct filter *filter, uint32_t *seed)
{
    static const uint16_t jumps[] = {EQ, GE, GT};
    uint32_t length = 40 + draw(seed, 160);
    bool number = true; /* the accumulator may hold nothing else, on any way here */
    begin(filter);
    while (filter->length < length) {
        uint32_t kind = draw(seed, 12);
        uint32_t room =
            length - filter->length; /* an answer stands at the end, and one for who jumps over it */
        if (kind < 6) {
            uint32_t k = number ? draw(seed, 60) : draw(seed, 4);
            uint8_t jt = (uint8_t)draw(seed, room), jf = (uint8_t)draw(seed, room);
            add(filter, (struct sock_filter)BPF_JUMP(jumps[draw(seed, 3)], k, jt, jf));
        } else if (kind < 8) {
            add(filter, (struct sock_filter)LOAD(NR));
        } else if (kind < 10) {
            number = false;
            add(filter, (struct sock_filter)LOAD(ARG(draw(seed, 2)) + 4 * draw(seed, 2)));
            if (draw(seed, 2) == 0) {
                add(filter, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, draw(seed, 4)));
            }
        } else if (kind == 10) {
            add(filter, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, draw(seed, room)));
        } else {
            add(filter, (struct sock_filter)ANSWER(SECCOMP_RET_ERRNO | draw(seed, 5)));
        }
    }
    add(filter, (struct sock_filter)ANSWER(SECCOMP_RET_ALLOW));
}

static void test_at_random(void **state)
{
    (void)state;
    struct filter *filter = calloc(1, sizeof *filter);
    uint32_t seed = 3;
    unsigned n_shorter = 0;
    assert_non_null(filter);
    for (unsigned i = 0; i < 400; i++) {
        fill_at_random(filter, &seed);
        CLEANUP(freep) struct filter *after = squeezed(filter);
        n_shorter += after->length < filter->length;
        assert_equivalent(filter, after, 70, &seed);
    }
    assert_true(n_shorter > 100); /* or nothing was tested */
    free(filter);
}

/* What it does not understand, it leaves alone. */
static void test_left_alone(void **state)
{
    (void)state;
    static const struct sock_filter odd[] = {
        BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, 1),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xff), /* of the number */
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 1, 0, 0),
        BPF_STMT(BPF_MISC | BPF_TAX, 0),
    };
    static const struct sock_filter foreign[] = {LOAD(ARCH_AT), BPF_JUMP(EQ, AUDIT_ARCH_I386, 0, 0),
                                                 LOAD(NR)};
    struct filter *filter = calloc(1, sizeof *filter);
    assert_non_null(filter);
    for (size_t i = 0; i <= ARRAY_SIZE(odd); i++) {
        begin(filter);
        for (size_t n = 0; n < (i < ARRAY_SIZE(odd) ? 1 : ARRAY_SIZE(foreign)); n++) {
            add(filter, i < ARRAY_SIZE(odd) ? odd[i] : foreign[n]);
        }
        for (uint32_t nr = 0; nr < 50; nr++) {
            add(filter, (struct sock_filter)BPF_JUMP(EQ, nr, 0, 1));
            add(filter, (struct sock_filter)ANSWER(SECCOMP_RET_ALLOW));
        }
        add(filter, (struct sock_filter)ANSWER(SECCOMP_RET_LOG));
        struct filter *after = malloc(sizeof *after);
        assert_non_null(after);
        *after = *filter;
        filter_squeeze(after->code, &after->length, ARCH);
        assert_int_equal(after->length, filter->length);
        assert_memory_equal(after->code, filter->code, filter->length * sizeof *filter->code);
        free(after);
    }
    filter->length = 0; /* compares what nobody has loaded */
    for (uint32_t nr = 0; nr < 50; nr++) {
        add(filter, (struct sock_filter)BPF_JUMP(EQ, nr, 0, 1));
        add(filter, (struct sock_filter)ANSWER(SECCOMP_RET_ALLOW));
    }
    add(filter, (struct sock_filter)ANSWER(SECCOMP_RET_LOG));
    CLEANUP(freep) struct filter *after = squeezed(filter);
    assert_int_equal(after->length, filter->length);
    free(filter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_neighbours),  cmocka_unit_test(test_far_jumps),
        cmocka_unit_test(test_empty_masks), cmocka_unit_test(test_at_random),
        cmocka_unit_test(test_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
