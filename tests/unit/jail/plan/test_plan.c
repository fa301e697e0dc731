/* jail/plan/plan.c, plan_print.c: printing is stable and safe on anything; a plan's copy and its encoded form
 * are the same plan. */
#include "tests/unit/jail/good_plan.h"

#include "jail/base/buf.h"

static void test_describe(void **state)
{
    (void)state;
    CLEANUP(plan_freep) struct jail_plan *plan = good_plan();
    char text[64];
    jail_plan_describe_step(plan, 0, text, sizeof text);
    assert_string_equal(text, "step 1 (propagation)");
    jail_plan_describe_step(plan, plan->n_steps - 1, text, sizeof text);
    assert_string_equal(text, "step 31 (exec /usr/bin/python3)");
    jail_plan_describe_step(plan, 999, text, sizeof text);
    assert_string_equal(text, "step 1000");
    char small[8];
    jail_plan_describe_step(plan, 0, small, sizeof small);
    assert_string_equal(small, "step 1 ");
}

static const char printed[] =
    "namespaces user mount pid net uts\n"
    "limits memory 67108864 bytes, pids 8, cpu 100 %, timeout 1000 ms, scratch 1048576 bytes, scratch 64 "
    "inodes\n"
    "  1 propagation\n"
    "  2 identity uid 1000 gid 1000\n"
    "  3 loopback\n"
    "  4 hostname immure\n"
    "  5 root 65536 bytes, 64 inodes\n"
    "  6 mkdir /usr mode 0755\n"
    "  7 bind /usr/lib at /usr/lib ro nosuid nodev recursive\n"
    "  8 symlink /lib to usr/lib\n"
    "  9 file /motd mode 0444, 12 bytes \"hello,\\n\\\"you\\\"\"\n"
    " 10 file /main.py mode 0444, 99 bytes from the input at 0\n"
    " 11 tmpfs /run mode 1777, 4096 bytes, 4 inodes nosuid nodev\n"
    " 12 proc /proc ro nosuid nodev noexec optional subset=pid hidepid=invisible\n"
    " 13 scratch /tmp nosuid nodev\n"
    " 14 submount /tmp/work at /workspace nosuid nodev\n"
    " 15 workspace /shared nosuid nodev\n"
    " 16 pivot\n"
    " 17 root-readonly\n"
    " 18 stdio\n"
    " 19 bridge\n"
    " 20 capabilities keep none\n"
    " 21 no-new-privs\n"
    " 22 program\n"
    " 23 session\n"
    " 24 umask 0022\n"
    " 25 workdir /workspace\n"
    " 26 rlimit NOFILE soft 64 hard unlimited\n"
    " 27 speculation no store bypass if offered, no core shared with others or no job\n"
    " 28 landlock version 7, writes below [/workspace, /tmp], devices [/dev/null]\n"
    " 29 no-set-id\n"
    " 30 seccomp 1 instructions, denials are reported\n"
    " 31 exec /usr/bin/python3 argv [python3, \"a b\"] environment [HOME=/workspace]\n";

static void test_print(void **state)
{
    (void)state;
    CLEANUP(plan_freep) struct jail_plan *plan = good_plan();
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    jail_plan_print(plan, &text);
    assert_string_equal(text.data, printed);
}

/* A core limit of 0 is applied as 1; capabilities have names, but for those of kernels to come. */
static void test_print_what_is_applied(void **state)
{
    (void)state;
    CLEANUP(plan_freep) struct jail_plan *plan = good_plan();
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        struct jail_step *step = &plan->steps[i];
        if (step->kind == JAIL_STEP_CAPABILITIES) {
            step->capabilities.keep = 1u | 1u << 10 | (uint64_t)1 << 63;
        } else if (step->kind == JAIL_STEP_RLIMIT) {
            step->rlimit.resource = RLIMIT_CORE;
            step->rlimit.soft = step->rlimit.hard = 0;
        }
    }
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    jail_plan_print(plan, &text);
    assert_non_null(strstr(text.data, " capabilities keep CAP_CHOWN CAP_NET_BIND_SERVICE 63\n"));
    assert_non_null(strstr(text.data, " rlimit CORE soft 1 hard 1, no core at all\n"));
}

static void test_copy_is_equal_and_independent(void **state)
{
    (void)state;
    struct jail_plan *plan = good_plan();
    CLEANUP(plan_freep) struct jail_plan *copy = jail_plan_copy(plan);
    assert_non_null(copy);
    jail_plan_free(plan);
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    jail_plan_print(copy, &text);
    assert_string_equal(text.data, printed);
    assert_int_equal(jail_plan_check(copy, NULL), 0);
    /* The copy can grow. */
    for (int i = 0; i < 500; i++) {
        jail_plan_add(copy, JAIL_STEP_MKDIR)->mkdir.path =
            jail_plan_text(copy, "/a/directory/with/a/longish/name");
    }
    assert_false(copy->failed);
    assert_int_equal(copy->n_steps, 531);
    assert_string_equal(jail_plan_string(copy, copy->steps[530].mkdir.path),
                        "/a/directory/with/a/longish/name");
}

static void test_too_large_an_arena_fails(void **state)
{
    (void)state;
    CLEANUP(plan_freep) struct jail_plan *plan = good_plan();
    CLEANUP(freep) char *big = calloc(1, JAIL_ARENA_MAX);
    assert_non_null(big);
    assert_int_equal(jail_plan_bytes(plan, big, JAIL_ARENA_MAX, 8), 0);
    assert_true(plan->failed);
    uint32_t n_steps = plan->n_steps;
    /* Writing on is harmless. */
    jail_plan_add(plan, JAIL_STEP_MKDIR)->mkdir.mode = 0755;
    assert_int_equal(plan->n_steps, n_steps);
    assert_int_equal(jail_plan_text(plan, "x"), 0);
    assert_refused(plan, "no allocation failed");
}

static void test_arena(void **state)
{
    (void)state;
    CLEANUP(plan_freep) struct jail_plan *plan = jail_plan_new();
    assert_string_equal(jail_plan_string(plan, 0), "");
    assert_int_equal(jail_plan_text(plan, ""), 0);
    jail_ref one = jail_plan_text(plan, "one");
    jail_ref aligned = jail_plan_bytes(plan, "12345678", 8, 8);
    assert_int_equal(aligned % 8, 0);
    assert_string_equal(jail_plan_string(plan, one), "one");
    assert_memory_equal(plan->arena + aligned, "12345678", 8);
    /* Neither an open end nor a place outside is ever read. */
    assert_string_equal(jail_plan_string(plan, aligned), "");
    assert_string_equal(jail_plan_string(plan, UINT32_MAX), "");
}

/* Every field of every step takes wild values; check and print must come back. Run under the sanitizers. */
static void test_garbage_is_safe(void **state)
{
    (void)state;
    CLEANUP(plan_freep) struct jail_plan *plan = good_plan();
    srandom(1);
    size_t accepted = 0;
    for (int round = 0; round < 20000; round++) {
        CLEANUP(plan_freep) struct jail_plan *wild = jail_plan_copy(plan);
        for (long n = random() % 4; n >= 0; n--) {
            uint32_t *words = (uint32_t *)&wild->steps[(uint32_t)random() % wild->n_steps];
            size_t at = (size_t)random() % (sizeof(struct jail_step) / sizeof *words);
            static const uint32_t values[] = {0, 1, 2, 7, 0x7fffffff, 0x80000000, UINT32_MAX, 300};
            words[at] = values[(size_t)random() % ARRAY_SIZE(values)];
        }
        for (uint32_t i = 0; i < wild->n_steps; i++) {
            /* A bool holds 0 or 1; anything else is undefined before the code under test even looks. */
            struct jail_step *step = &wild->steps[i];
            unsigned char *flag = step->kind == JAIL_STEP_FILE      ? (unsigned char *)&step->file.from_input
                                  : step->kind == JAIL_STEP_SECCOMP ? (unsigned char *)&step->seccomp.notify
                                  : step->kind == JAIL_STEP_SESSION ? (unsigned char *)&step->session.terminal
                                                                    : NULL;
            if (flag) {
                *flag &= 1;
            }
        }
        struct err err = {0};
        accepted += jail_plan_check(wild, &err) == 0;
        CLEANUP(buf_free) struct buf text = BUF_INIT;
        jail_plan_print(wild, &text);
        assert_false(text.failed);
    }
    /* Some changes are legal or touch unused bytes, most are not. */
    assert_in_range(accepted, 1, 19999);
}

static void test_words(void **state)
{
    (void)state;
    assert_string_equal(jail_step_word(JAIL_STEP_ROOT_READONLY), "root-readonly");
    assert_string_equal(jail_step_word(JAIL_STEP_COUNT), "unknown");
    assert_string_equal(jail_step_doc(JAIL_STEP_EXEC), "become the program");
    assert_string_equal(jail_step_doc(JAIL_STEP_COUNT), "no such step");
}

static int decode(const struct buf *encoded, struct jail_plan **ret)
{
    return jail_plan_decode(encoded->data, encoded->len, ret);
}

static void an_encoded_plan_is_the_same_plan(void **state)
{
    (void)state;
    CLEANUP(plan_freep) struct jail_plan *plan = good_plan();
    CLEANUP(plan_freep) struct jail_plan *decoded = NULL;
    CLEANUP(buf_free) struct buf encoded = BUF_INIT, again = BUF_INIT;
    assert_int_equal(jail_plan_encode(plan, &encoded), 0);
    assert_int_equal(decode(&encoded, &decoded), 0);
    assert_int_equal(jail_plan_check(decoded, NULL), 0);
    assert_int_equal(jail_plan_encode(decoded, &again), 0);
    assert_int_equal(encoded.len, again.len);
    assert_memory_equal(encoded.data, again.data, encoded.len);
    encoded.len--;
    assert_int_equal(decode(&encoded, &decoded), -EBADMSG);
}

/* Bytes that are no bool, and numbers that are no kind of step. */
static void unreadable_steps_do_not_decode(void **state)
{
    (void)state;
    for (int round = 0; round < 4; round++) {
        CLEANUP(plan_freep) struct jail_plan *plan = good_plan();
        CLEANUP(buf_free) struct buf encoded = BUF_INIT;
        struct jail_plan *decoded = NULL;
        for (uint32_t i = 0; i < plan->n_steps; i++) {
            struct jail_step *step = &plan->steps[i];
            if (round == 0 && step->kind == JAIL_STEP_FILE) {
                memset(&step->file.from_input, 2, 1);
            } else if (round == 1 && step->kind == JAIL_STEP_SECCOMP) {
                memset(&step->seccomp.notify, 255, 1);
            } else if (round == 3 && step->kind == JAIL_STEP_SESSION) {
                memset(&step->session.terminal, 3, 1);
            } else if (round == 2 && step->kind == JAIL_STEP_PIVOT) {
                step->kind = JAIL_STEP_COUNT;
            }
        }
        assert_int_equal(jail_plan_encode(plan, &encoded), 0);
        assert_int_equal(decode(&encoded, &decoded), -EBADMSG);
        assert_null(decoded);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_describe),
        cmocka_unit_test(test_print),
        cmocka_unit_test(test_print_what_is_applied),
        cmocka_unit_test(test_copy_is_equal_and_independent),
        cmocka_unit_test(test_too_large_an_arena_fails),
        cmocka_unit_test(test_arena),
        cmocka_unit_test(test_garbage_is_safe),
        cmocka_unit_test(test_words),
        cmocka_unit_test(an_encoded_plan_is_the_same_plan),
        cmocka_unit_test(unreadable_steps_do_not_decode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
