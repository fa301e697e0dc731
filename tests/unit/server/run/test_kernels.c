/* server/run/kernels.c: who may enter the kernel of a session, how many there are, and whose they are. What
 * starts in them is tests/api/test_kernels.py's: here no interpreter is. */
#include "server/run/kernels.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/base/loop.h"
#include "policy/policy.h"
#include "server/host/floor.h"
#include "server/host/host.h"
#include "server/kit/log.h"
#include "server/sessions/sessions.h"

#define SHA_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define SHA_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

struct world {
    struct server_config *config;
    struct loop *loop;
    struct log *log;
    struct sessions *sessions;
    struct kernels *kernels;
    struct policy *policy;
    unsigned changes;
};

static const struct runtime_config with_kernel = {.name = (char *)"python", .kernel = (char *)"kernel.py"};
static const struct runtime_config another = {.name = (char *)"node", .kernel = (char *)"kernel.js"};
static const struct runtime_config without = {.name = (char *)"plain", .kernel = (char *)""};

/* An ordinary user's process enters its namespace once. */
static struct host the_host;

static int open_host(void **state)
{
    (void)state;
    const struct host_options options = {.cgroup_mode = CGROUP_BEST_EFFORT,
                                         .best_effort = "",
                                         .outer_uid_base = 1879048192u,
                                         .n_outer_uids = 64};
    struct err err = {0};
    if (host_open(&options, &the_host, &err) < 0) {
        print_error("%s\n", err.text);
        return -1;
    }
    return 0;
}

static int close_host(void **state)
{
    (void)state;
    host_close(&the_host);
    return 0;
}

static void on_sessions(void *arg)
{
    (void)arg;
}

static void on_kernels(void *arg)
{
    struct world *world = arg;
    world->changes++;
}

static void on_end(void *arg, const struct session *session, bool at_once)
{
    struct world *world = arg;
    kernels_end_session(world->kernels, session, at_once);
}

static void on_over(void *arg, const struct session *session, const char *why)
{
    (void)arg, (void)session, (void)why;
}

/* Three kernels for two keys, of which neither may have all. */
static int set_up(void **state)
{
    static struct world world;
    static const char text[] = "max_kernels: 3 cgroup: BEST_EFFORT key { name: 'a' sha256: '" SHA_A
                               "' } key { name: 'b' sha256: '" SHA_B "' }";
    char path[] = "/tmp/immure-kernels-XXXXXX", *env[] = {NULL};
    int fd = mkstemp(path), null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct err err = {0};
    world = (struct world){.log = log_new(null, LOG_FORMAT_LOGFMT, LOG_DEBUG, "warden")};
    int r = fd < 0 ? -1 : io_write_full(fd, text, sizeof text - 1);
    fd_closep(&fd);
    r = r < 0 ? r : server_config_load(path, env, &world.config, &err);
    unlink(path);
    if (r < 0 || loop_new(&world.loop, &err) < 0) {
        print_error("%s\n", err.text);
        return -1;
    }
    const struct sessions_options sessions = {.host = &the_host,
                                              .loop = world.loop,
                                              .log = &world.log,
                                              .changed = on_sessions,
                                              .over = on_over,
                                              .ended = on_end,
                                              .arg = &world};
    const struct kernels_options kernels = {
        .host = &the_host, .loop = world.loop, .log = &world.log, .changed = on_kernels, .arg = &world};
    if (sessions_new(&sessions, world.config, &world.sessions, &err) < 0 ||
        kernels_new(&kernels, &world.kernels, &err) < 0 ||
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
    sessions_free(world->sessions);
    policy_free(world->policy);
    loop_free(world->loop);
    server_config_free(world->config);
    log_free(world->log);
    return 0;
}

/* A job in the key's session of that name, which has entered it. */
static struct session *enter_session(struct world *world, const char *key, const char *name)
{
    const struct session_ask ask = {.config = world->config, .key = key, .session_id = name};
    struct session *session;
    bool is_new;
    uint64_t retry_after_ms;
    struct err err = {0};
    if (session_enter(world->sessions, &ask, &session, &is_new, &retry_after_ms, &err) < 0) {
        fail_msg("%s", err.text);
    }
    return session;
}

static void leave_session(struct session *session)
{
    session_leave(session, true);
    session_unref(session);
}

static enum err_kind enter(struct world *world, const char *key, struct session *session,
                           const struct runtime_config *runtime, struct kernel **ret, struct err *reterr)
{
    uint64_t retry_after_ms;
    *reterr = (struct err){0};
    kernel_enter(world->kernels, world->config, key, session, runtime, world->policy, ret, &retry_after_ms,
                 reterr);
    /* Who is to come again is told when. */
    assert_true(reterr->kind != ERR_BUSY || !strstr(reterr->text, "another call") || retry_after_ms > 0);
    return reterr->kind;
}

static enum err_kind would(struct world *world, const char *key, const struct session *session)
{
    struct err err = {0};
    size_t before = kernels_count(world->kernels);
    kernel_try(world->kernels, world->config, key, session, world->policy, &err);
    assert_int_equal(kernels_count(world->kernels), before);
    return err.kind;
}

static void one_call_at_a_time(void **state)
{
    struct world *world = *state;
    struct session *session = enter_session(world, "a", "s");
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
    leave_session(session);
}

static void a_runtime_may_have_none(void **state)
{
    struct world *world = *state;
    struct session *session = enter_session(world, "a", "s");
    struct kernel *kernel;
    struct err err;
    assert_int_equal(enter(world, "a", session, &without, &kernel, &err), ERR_INVALID);
    assert_string_equal(err.item, "policy");
    assert_non_null(strstr(err.text, "'plain'"));
    assert_int_equal(kernels_count(world->kernels), 0);
    assert_int_equal(world->changes, 0);
    leave_session(session);
}

/* Of three, two: the last one is the other key's. Then there is none for anybody. */
static void no_key_takes_them_all(void **state)
{
    struct world *world = *state;
    struct session *of_a[3] = {enter_session(world, "a", "1"), enter_session(world, "a", "2"),
                               enter_session(world, "a", "3")};
    struct session *of_b[2] = {enter_session(world, "b", "4"), enter_session(world, "b", "5")};
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
        leave_session(of_a[i]);
    }
    leave_session(of_b[0]);
    leave_session(of_b[1]);
}

/* While its call runs the kernel is lost to the next one, but it is there until the call has left it. */
static void a_session_that_is_over_loses_its_kernel(void **state)
{
    struct world *world = *state;
    struct session *session = enter_session(world, "a", "s");
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
    leave_session(session);
}

/* The workspace of a session that is ended stays for as long as a call has it; the name is free. */
static void a_call_outlives_the_name_of_its_session(void **state)
{
    struct world *world = *state;
    struct session *session = enter_session(world, "a", "s");
    struct kernel *kernel, *of_the_next;
    struct err err;
    assert_int_equal(enter(world, "a", session, &with_kernel, &kernel, &err), ERR_NONE);
    session_end(session);
    struct session *next = enter_session(world, "a", "s");
    assert_ptr_not_equal(next, session);
    assert_int_equal(enter(world, "a", next, &with_kernel, &of_the_next, &err), ERR_NONE);
    kernel_leave(kernel);
    kernel_leave(of_the_next);
    leave_session(session);
    leave_session(next);
    assert_int_equal(kernels_count(world->kernels), 0);
}

/* Those that are called, or were never started, hold nothing that could be taken back. */
static void what_is_called_is_not_idle(void **state)
{
    struct world *world = *state;
    struct session *session = enter_session(world, "a", "s");
    struct floor_candidate idle[2];
    struct kernel *kernel;
    struct err err;
    assert_int_equal(enter(world, "a", session, &with_kernel, &kernel, &err), ERR_NONE);
    assert_int_equal(kernels_idle(world->kernels, idle, 2), 0);
    assert_int_equal(kernels_idle(NULL, idle, 2), 0);
    assert_int_equal(kernels_count(NULL), 0);
    kernel_leave(kernel);
    kernel_leave(NULL);
    leave_session(session);
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
