/* server/run/kernels.c: who may enter the kernel of a session, how many there are, and whose they are. What
 * starts in them is tests/api/test_kernels.py's: here no interpreter is. */
#include "server/run/kernels.h"

#include "config/message/job.h"
#include "policy/policy.h"
#include "server/host/floor.h"
#include "tests/unit/server/sessions_world.h"

struct world {
    struct sessions_world with;
    struct kernels *kernels;
    struct policy *policy;
    unsigned changes;
};

static const struct runtime_config with_kernel = {.name = (char *)"python", .kernel = (char *)"kernel.py"};
static const struct runtime_config another = {.name = (char *)"node", .kernel = (char *)"kernel.js"};
static const struct runtime_config without = {.name = (char *)"plain", .kernel = (char *)""};

static void on_kernels(void *arg)
{
    struct world *world = arg;
    world->changes++;
}

static void on_session_end(void *arg, const struct session *session, bool at_once)
{
    struct world *world = arg;
    kernels_end_session(world->kernels, session, at_once);
}

/* Three kernels for two keys, of which neither may have all. */
static int set_up(void **state)
{
    static struct world world;
    struct err err = {0};
    world = (struct world){0};
    if (sessions_world_open(&world.with, "max_kernels: 3") < 0) {
        return -1;
    }
    world.with.ended = on_session_end;
    world.with.ended_arg = &world;
    const struct kernels_options options = {.host = &the_host,
                                            .loop = world.with.loop,
                                            .log = &world.with.log,
                                            .changed = on_kernels,
                                            .arg = &world};
    if (kernels_new(&options, &world.kernels, &err) < 0 ||
        policy_resolve("python-kernel", &world.policy, &err) < 0) {
        print_error("%s\n", err.text);
        return -1;
    }
    *state = &world;
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    kernels_free(TAKE_PTR(world->kernels));
    policy_free(world->policy);
    sessions_world_close(&world->with);
    return 0;
}

static struct session *enter_one(struct world *world, const char *key, const char *name)
{
    bool is_new;
    return enter_session(&world->with, key, name, &is_new);
}

static enum err_kind enter(struct world *world, const char *key, struct session *session,
                           const struct runtime_config *runtime, struct kernel **ret, struct err *reterr)
{
    uint64_t retry_after_ms;
    *reterr = (struct err){0};
    kernel_enter(world->kernels, world->with.config, key, session, runtime, world->policy, ret,
                 &retry_after_ms, reterr);
    /* Who is to come again is told when. */
    assert_true(reterr->kind != ERR_BUSY || !strstr(reterr->text, "another call") || retry_after_ms > 0);
    return reterr->kind;
}

static enum err_kind would(struct world *world, const char *key, const struct session *session)
{
    struct err err = {0};
    size_t before = kernels_count(world->kernels);
    kernel_try(world->kernels, world->with.config, key, session, world->policy, &err);
    assert_int_equal(kernels_count(world->kernels), before);
    return err.kind;
}

static void one_call_at_a_time(void **state)
{
    struct world *world = *state;
    struct session *session = enter_one(world, "a", "s");
    struct kernel *kernel, *second;
    struct err err;
    assert_int_equal(would(world, "a", session), ERR_NONE);
    assert_int_equal(enter(world, "a", session, &with_kernel, &kernel, &err), ERR_NONE);
    assert_int_equal(kernels_count(world->kernels), 1);
    assert_int_equal(world->changes, 1);
    assert_null(kernel_jail(kernel));
    assert_int_equal(kernel_scratch(kernel), -1);
    assert_int_equal(would(world, "a", session), ERR_BUSY);
    assert_int_equal(enter(world, "a", session, &with_kernel, &second, &err), ERR_BUSY);
    assert_int_equal(kernels_count(world->kernels), 1);
    kernel_leave(kernel); /* it has never been started */
    assert_int_equal(kernels_count(world->kernels), 0);
    assert_int_equal(world->changes, 2);
    assert_int_equal(would(world, "a", session), ERR_NONE);
    leave_session(session, true);
}

static void a_runtime_may_have_none(void **state)
{
    struct world *world = *state;
    struct session *session = enter_one(world, "a", "s");
    struct kernel *kernel;
    struct err err;
    assert_int_equal(enter(world, "a", session, &without, &kernel, &err), ERR_INVALID);
    assert_string_equal(err.item, "policy");
    assert_non_null(strstr(err.text, "'plain'"));
    assert_int_equal(kernels_count(world->kernels), 0);
    assert_int_equal(world->changes, 0);
    leave_session(session, true);
}

/* Of three, two: the last one is the other key's. Then there is none for anybody. */
static void no_key_takes_them_all(void **state)
{
    struct world *world = *state;
    struct session *of_a[3] = {enter_one(world, "a", "1"), enter_one(world, "a", "2"),
                               enter_one(world, "a", "3")};
    struct session *of_b[2] = {enter_one(world, "b", "4"), enter_one(world, "b", "5")};
    struct kernel *kernels[3], *none;
    struct err err;
    assert_int_equal(enter(world, "a", of_a[0], &with_kernel, &kernels[0], &err), ERR_NONE);
    assert_int_equal(enter(world, "a", of_a[1], &with_kernel, &kernels[1], &err), ERR_NONE);
    assert_int_equal(would(world, "a", of_a[2]), ERR_RATE);
    assert_int_equal(would(world, "a", NULL), ERR_RATE);
    assert_int_equal(enter(world, "a", of_a[2], &with_kernel, &none, &err), ERR_RATE);
    assert_non_null(strstr(err.text, "key 'a' may have 2 kernels"));
    assert_int_equal(enter(world, "b", of_b[0], &with_kernel, &kernels[2], &err), ERR_NONE);
    assert_int_equal(would(world, "b", of_b[1]), ERR_BUSY);
    assert_int_equal(enter(world, "b", of_b[1], &with_kernel, &none, &err), ERR_BUSY);
    kernel_leave(kernels[0]);
    assert_int_equal(would(world, "a", of_a[2]), ERR_NONE);
    kernel_leave(kernels[1]);
    kernel_leave(kernels[2]);
    for (int i = 0; i < 3; i++) {
        leave_session(of_a[i], true);
    }
    leave_session(of_b[0], true);
    leave_session(of_b[1], true);
}

/* While its call runs the kernel is lost to the next one, but it is there until the call has left it. */
static void a_session_that_is_over_loses_its_kernel(void **state)
{
    struct world *world = *state;
    struct session *session = enter_one(world, "a", "s");
    struct kernel *first, *second;
    struct err err;
    assert_int_equal(enter(world, "a", session, &with_kernel, &first, &err), ERR_NONE);
    kernels_end_session(world->kernels, session, false);
    assert_int_equal(kernels_count(world->kernels), 1);
    assert_int_equal(kernel_end_call(first), JOB_KERNEL_ENDED);
    assert_int_equal(enter(world, "a", session, &another, &second, &err), ERR_NONE);
    assert_ptr_not_equal(first, second);
    kernel_leave(first);
    assert_int_equal(kernels_count(world->kernels), 1);
    kernel_leave(second);
    leave_session(session, true);
}

/* The workspace of a session that is ended stays for as long as a call has it; the name is free. */
static void a_call_outlives_the_name_of_its_session(void **state)
{
    struct world *world = *state;
    struct session *session = enter_one(world, "a", "s");
    struct kernel *kernel, *of_the_next;
    struct err err;
    assert_int_equal(enter(world, "a", session, &with_kernel, &kernel, &err), ERR_NONE);
    session_end(session);
    struct session *next = enter_one(world, "a", "s");
    assert_ptr_not_equal(next, session);
    assert_int_equal(enter(world, "a", next, &with_kernel, &of_the_next, &err), ERR_NONE);
    kernel_leave(kernel);
    kernel_leave(of_the_next);
    leave_session(session, true);
    leave_session(next, true);
    assert_int_equal(kernels_count(world->kernels), 0);
}

/* Those that are called, or were never started, hold nothing that could be taken back. */
static void what_is_called_is_not_idle(void **state)
{
    struct world *world = *state;
    struct session *session = enter_one(world, "a", "s");
    struct floor_candidate idle[2];
    struct kernel *kernel;
    struct err err;
    assert_int_equal(enter(world, "a", session, &with_kernel, &kernel, &err), ERR_NONE);
    assert_int_equal(kernels_idle(world->kernels, idle, 2), 0);
    assert_int_equal(kernels_idle(NULL, idle, 2), 0);
    assert_int_equal(kernels_count(NULL), 0);
    kernel_leave(kernel);
    kernel_leave(NULL);
    leave_session(session, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_call_at_a_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_runtime_may_have_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_key_takes_them_all, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_session_that_is_over_loses_its_kernel, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_call_outlives_the_name_of_its_session, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_called_is_not_idle, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, open_host, close_host);
}
