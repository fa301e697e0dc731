/* The event loop: above all that nothing is called that has been removed or set anew in the same round. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/loop.h"
#include "tests/unit/no_watches.h"

/* A pipe, its source in a loop, and what its callback is to do. */
struct probe {
    struct loop *loop;
    int fds[2];
    struct loop_source *source;
    unsigned calls;
    uint32_t events;
    struct probe *removes; /* takes this one's source away */
    uint64_t sets_ns;      /* arms its own timer for this moment */
    bool stops;
};

static void on_event(void *arg, uint32_t events)
{
    struct probe *probe = arg;
    probe->calls++;
    probe->events = events;
    if (probe->removes) {
        loop_remove(probe->removes->source);
        probe->removes->source = NULL;
    }
    if (probe->sets_ns) {
        assert_int_equal(loop_timer_set(probe->source, probe->sets_ns), 0);
    }
    if (probe->stops) {
        loop_stop(probe->loop);
    }
}

static struct loop *new_loop(void)
{
    struct loop *loop = NULL;
    struct err err = {0};
    assert_int_equal(loop_new(&loop, &err), 0);
    return loop;
}

static void once(struct loop *loop, int timeout_ms)
{
    struct err err = {0};
    assert_int_equal(loop_once(loop, timeout_ms, &err), 0);
}

static void add_pipe(struct probe *probe, struct loop *loop)
{
    struct err err = {0};
    probe->loop = loop;
    assert_int_equal(pipe2(probe->fds, O_CLOEXEC | O_NONBLOCK), 0);
    assert_int_equal(loop_add(loop, probe->fds[0], EPOLLIN, on_event, probe, &probe->source, &err), 0);
}

static void close_pipe(struct probe *probe)
{
    loop_remove(probe->source);
    close(probe->fds[0]);
    close(probe->fds[1]);
}

static void feed(struct probe *probe)
{
    assert_int_equal(write(probe->fds[1], "x", 1), 1);
}

static void test_input(void **state)
{
    (void)state;
    struct loop *loop = new_loop();
    struct probe a = {0}, b = {0};
    add_pipe(&a, loop);
    add_pipe(&b, loop);
    once(loop, 0);
    assert_int_equal(a.calls + b.calls, 0);
    feed(&a);
    once(loop, -1);
    assert_int_equal(a.calls, 1);
    assert_int_equal(a.events, EPOLLIN);
    assert_int_equal(b.calls, 0);
    once(loop, 0); /* level-triggered */
    assert_int_equal(a.calls, 2);
    assert_int_equal(loop_modify(a.source, 0), 0);
    once(loop, 0);
    assert_int_equal(a.calls, 2);
    close(b.fds[1]);
    once(loop, -1);
    assert_int_equal(b.events, EPOLLHUP);
    b.fds[1] = dup(b.fds[0]);
    close_pipe(&a);
    close_pipe(&b);
    loop_remove(NULL);
    loop_free(loop);
    loop_free(NULL);
}

static void test_what_cannot_be_watched(void **state)
{
    (void)state;
    struct loop *loop = new_loop();
    struct loop_source *source = NULL;
    struct err err = {0};
    assert_int_equal(loop_add(loop, -1, EPOLLIN, on_event, NULL, &source, &err), -EBADF);
    assert_int_equal(err.kind, ERR_INTERNAL);
    CLEANUP(fd_closep) int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    err_clear(&err);
    assert_int_equal(loop_add(loop, file, EPOLLIN, on_event, NULL, &source, &err), -EPERM);
    assert_null(source);
    loop_free(loop);
}

/* Both are ready in one round; whichever is called first takes the other away, and that one is not called. */
static void test_removed_in_the_same_round(void **state)
{
    (void)state;
    struct loop *loop = new_loop();
    struct probe a = {0}, b = {0};
    add_pipe(&a, loop);
    add_pipe(&b, loop);
    a.removes = &b;
    b.removes = &a;
    feed(&a);
    feed(&b);
    once(loop, -1);
    assert_int_equal(a.calls + b.calls, 1);
    once(loop, 0);
    assert_int_equal(a.calls + b.calls, 2);
    close_pipe(&a);
    close_pipe(&b);
    loop_free(loop);
}

static void test_removes_itself(void **state)
{
    (void)state;
    struct loop *loop = new_loop();
    struct probe a = {0};
    add_pipe(&a, loop);
    a.removes = &a;
    feed(&a);
    once(loop, -1);
    once(loop, 0);
    assert_int_equal(a.calls, 1);
    close_pipe(&a);
    loop_free(loop);
}

static void test_timer(void **state)
{
    (void)state;
    struct loop *loop = new_loop();
    struct err err = {0};
    struct probe timer = {.loop = loop};
    assert_int_equal(loop_add_timer(loop, on_event, &timer, &timer.source, &err), 0);
    once(loop, 20);
    assert_int_equal(timer.calls, 0); /* disarmed */
    timer.events = 77;
    uint64_t due_ns = clock_now_ns() + 20 * NS_PER_MS;
    assert_int_equal(loop_timer_set(timer.source, due_ns), 0);
    while (timer.calls == 0) {
        once(loop, -1);
    }
    assert_true(clock_now_ns() >= due_ns);
    assert_int_equal(timer.events, 0);
    once(loop, 0);
    assert_int_equal(timer.calls, 1);                     /* once */
    assert_int_equal(loop_timer_set(timer.source, 1), 0); /* long past */
    once(loop, -1);
    assert_int_equal(timer.calls, 2);
    assert_int_equal(loop_timer_set(timer.source, clock_now_ns() + 5 * NS_PER_MS), 0);
    assert_int_equal(loop_timer_set(timer.source, 0), 0);
    once(loop, 30);
    assert_int_equal(timer.calls, 2);
    loop_remove(timer.source);
    loop_free(loop);
}

struct rearm {
    struct probe *timer;
    uint64_t due_ns;
};

static void on_event_rearm(void *arg, uint32_t events)
{
    struct rearm *rearm = arg;
    (void)events;
    assert_int_equal(loop_timer_set(rearm->timer->source, rearm->due_ns), 0);
}

/* A timer that another callback of the same round sets to a later time must not go off now. */
static void test_timer_that_is_set_again_in_the_same_round(void **state)
{
    (void)state;
    struct loop *loop = new_loop();
    struct err err = {0};
    struct probe input = {0}, timer = {.loop = loop};
    add_pipe(&input, loop);
    loop_remove(input.source);
    struct rearm rearm = {.timer = &timer, .due_ns = clock_now_ns() + 3600 * NS_PER_S};
    assert_int_equal(loop_add(loop, input.fds[0], EPOLLIN, on_event_rearm, &rearm, &input.source, &err), 0);
    assert_int_equal(loop_add_timer(loop, on_event, &timer, &timer.source, &err), 0);
    feed(&input); /* ready before the timer is: its callback comes first */
    assert_int_equal(loop_timer_set(timer.source, 1), 0);
    once(loop, -1);
    assert_int_equal(timer.calls, 0);
    loop_remove(timer.source);
    close_pipe(&input);
    loop_free(loop);
}

static void test_run_and_stop(void **state)
{
    (void)state;
    struct loop *loop = new_loop();
    struct err err = {0};
    struct probe a = {0};
    add_pipe(&a, loop);
    a.stops = true;
    feed(&a);
    assert_int_equal(loop_run(loop, &err), 0);
    assert_int_equal(loop_run(loop, &err), 0); /* can be run again */
    assert_int_equal(a.calls, 2);
    close_pipe(&a);
    loop_free(loop);
}

/* More than fit into one round. */
static void test_many_sources(void **state)
{
    (void)state;
    enum { MANY = 200 };
    struct loop *loop = new_loop();
    struct probe *probes = calloc(MANY, sizeof *probes);
    assert_non_null(probes);
    for (size_t i = 0; i < MANY; i++) {
        add_pipe(&probes[i], loop);
        feed(&probes[i]);
    }
    for (size_t round = 0; round < 10; round++) {
        once(loop, 0);
    }
    for (size_t i = 0; i < MANY; i++) {
        assert_true(probes[i].calls > 0);
        close_pipe(&probes[i]);
    }
    free(probes);
    loop_free(loop);
}

static void check_without_watches(void)
{
    struct loop *loop = new_loop();
    struct err err = {0};
    struct probe watched = {0}, polled = {0}, other = {0}, timer = {.loop = loop};
    add_pipe(&watched, loop);
    take_all_watches();
    add_pipe(&polled, loop);
    add_pipe(&other, loop);
    assert_int_equal(loop_add_timer(loop, on_event, &timer, &timer.source, &err), 0);
    once(loop, 0);
    assert_int_equal(watched.calls + polled.calls + other.calls + timer.calls, 0);
    feed(&watched);
    feed(&polled);
    once(loop, 1000);
    assert_int_equal(watched.calls, 1);
    assert_int_equal(polled.calls, 1);
    assert_int_equal(polled.events, EPOLLIN);
    assert_int_equal(loop_modify(polled.source, 0), 0);
    once(loop, 0);
    assert_int_equal(polled.calls, 1);
    assert_int_equal(loop_timer_set(timer.source, clock_now_ns() + 1), 0);
    once(loop, 1000);
    assert_int_equal(timer.calls, 1);
    /* One takes another away in the same round. */
    assert_int_equal(loop_modify(polled.source, EPOLLIN), 0);
    feed(&other);
    polled.removes = &other;
    other.removes = &polled;
    once(loop, 1000);
    assert_int_equal(polled.calls + other.calls, 2);
    loop_remove(timer.source);
    loop_remove(polled.source);
    loop_remove(other.source);
    loop_remove(watched.source);
    loop_free(loop);
}

static void test_no_watch_left(void **state)
{
    (void)state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        check_without_watches();
        _exit(0);
    }
    int wstatus;
    assert_int_equal(waitpid(pid, &wstatus, 0), pid);
    assert_int_equal(wstatus, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_watch_left),
        cmocka_unit_test(test_input),
        cmocka_unit_test(test_what_cannot_be_watched),
        cmocka_unit_test(test_removed_in_the_same_round),
        cmocka_unit_test(test_removes_itself),
        cmocka_unit_test(test_timer),
        cmocka_unit_test(test_timer_that_is_set_again_in_the_same_round),
        cmocka_unit_test(test_run_and_stop),
        cmocka_unit_test(test_many_sources),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
