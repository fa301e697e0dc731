/* Short turns: what they change, and what they leave alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <linux/sched.h>
#include <linux/sched/types.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/base/slice.h"

#define SHORT_SLICE_NS 100000

static struct sched_attr look(void)
{
    struct sched_attr attr = {.size = sizeof attr};
    assert_int_equal(syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 0), 0);
    return attr;
}

/* In a process of its own: 0 if `check` is true there once its turns are short. */
static int in_child(int nice_by, bool (*check)(struct sched_attr before))
{
    pid_t pid = fork();
    if (pid == 0) {
        struct sched_attr before;
        setpriority(PRIO_PROCESS, 0, nice_by);
        before = look();
        slice_shorten();
        _exit(!check(before));
    }
    int wstatus;
    assert_int_equal(waitpid(pid, &wstatus, 0), pid);
    return wstatus;
}

/* Linux before 6.12 tells of no slice and has one for all. */
static bool is_short(struct sched_attr before)
{
    struct sched_attr after = look();
    return (before.sched_runtime == 0 || after.sched_runtime == SHORT_SLICE_NS) &&
           after.sched_nice == before.sched_nice && after.sched_policy == SCHED_NORMAL;
}

static bool is_for_children(struct sched_attr before)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct sched_attr its = look();
        _exit(its.sched_runtime != before.sched_runtime || its.sched_nice != before.sched_nice ||
              its.sched_flags != 0);
    }
    int wstatus;
    return waitpid(pid, &wstatus, 0) == pid && wstatus == 0;
}

static bool is_as_before(struct sched_attr before)
{
    struct sched_attr after = look();
    if (before.sched_nice >= 0) {
        return is_short(before); /* only who is privileged can have a higher one */
    }
    return after.sched_runtime == before.sched_runtime && after.sched_nice == before.sched_nice &&
           after.sched_flags == before.sched_flags;
}

static bool is_batch_still(struct sched_attr before)
{
    before.sched_policy = SCHED_BATCH;
    before.sched_flags = SCHED_FLAG_RESET_ON_FORK; /* which only the privileged take back */
    if (syscall(SYS_sched_setattr, 0, &before, 0) < 0) {
        return false;
    }
    slice_shorten();
    return look().sched_policy == SCHED_BATCH;
}

static void test_turns(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        int nice_by;
        bool (*check)(struct sched_attr before);
    } trials[] = {
        {"turns are short", 0, is_short},
        {"children have turns like everybody's", 0, is_for_children},
        {"a lower priority stays", 5, is_short},
        {"a lower priority is handed on", 5, is_for_children},
        {"another class stays", 0, is_batch_still},
        {"a higher priority stays", -5, is_as_before},
        {"a higher priority is handed on", -5, is_for_children},
    };
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
        if (in_child(trials[i].nice_by, trials[i].check) != 0) {
            fail_msg("not so: %s", trials[i].what);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
