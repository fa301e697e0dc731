/* jail/plan/zygote_message.c: what a template takes from its parent, and what it does not. */
#include "jail/plan/zygote_message.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <linux/sched.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/plan/plan.h"

#define LEAST_STEPS 8

static void plan_freep(struct jail_plan **plan)
{
    jail_plan_free(*plan);
}

/* The least that a template can be asked for. */
static struct jail_plan *least_plan(void)
{
    static const enum jail_step_kind kinds[LEAST_STEPS] = {
        JAIL_STEP_PROPAGATION,  JAIL_STEP_IDENTITY, JAIL_STEP_ROOT_INHERITED, JAIL_STEP_CAPABILITIES,
        JAIL_STEP_NO_NEW_PRIVS, JAIL_STEP_PROGRAM,  JAIL_STEP_SESSION,        JAIL_STEP_RUN};
    struct jail_plan *plan = jail_plan_new();
    assert_non_null(plan);
    plan->namespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID;
    plan->uid = plan->gid = 1000;
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        struct jail_step *step = jail_plan_add(plan, kinds[i]);
        if (kinds[i] == JAIL_STEP_IDENTITY) {
            step->identity.uid = step->identity.gid = 1000;
        } else if (kinds[i] == JAIL_STEP_RUN) {
            step->exec.path = step->exec.argv = jail_plan_text(plan, "/bin/true");
            step->exec.argc = 1;
        }
    }
    assert_int_equal(jail_plan_check(plan, NULL), 0);
    return plan;
}

/* A message as the parent writes it. */
static struct buf message_of(const struct jail_plan *plan)
{
    struct buf message = BUF_INIT;
    struct zygote_header header;
    memset(&header, 0, sizeof header);
    header.kind = ZYGOTE_PARK;
    header.inner_uid = 65536;
    header.drop_groups = true;
    buf_append(&message, &header, sizeof header);
    assert_int_equal(jail_plan_encode(plan, &message), 0);
    return message;
}

static void what_the_parent_writes_is_read(void **state)
{
    (void)state;
    CLEANUP(plan_freep) struct jail_plan *plan = least_plan();
    CLEANUP(buf_free) struct buf message = message_of(plan);
    CLEANUP(plan_freep) struct jail_plan *read = NULL;
    struct zygote_header header;
    assert_int_equal(zygote_decode_header(message.data, message.len, &header), 0);
    assert_int_equal(header.kind, ZYGOTE_PARK);
    assert_int_equal(header.inner_uid, 65536);
    assert_true(header.drop_groups);
    assert_int_equal(zygote_decode_plan(message.data, message.len, &read), 0);
    assert_int_equal(read->n_steps, plan->n_steps);
}

static void headers_that_are_none(void **state)
{
    (void)state;
    struct zygote_header header, ret;
    memset(&header, 0, sizeof header);
    assert_int_equal(zygote_decode_header(&header, sizeof header - 1, &ret), -EBADMSG);
    memset(&header.drop_groups, 2, 1);
    assert_int_equal(zygote_decode_header(&header, sizeof header, &ret), -EBADMSG);
    header.drop_groups = false;
    memset(&header.has_workspace, 3, 1);
    assert_int_equal(zygote_decode_header(&header, sizeof header, &ret), -EBADMSG);
    header.has_workspace = false;
    memset(&header.filter_early, 3, 1);
    assert_int_equal(zygote_decode_header(&header, sizeof header, &ret), -EBADMSG);
    header.filter_early = false;
    memset(&header.files_late, 2, 1);
    assert_int_equal(zygote_decode_header(&header, sizeof header, &ret), -EBADMSG);
    header.files_late = false;
    memset(&header.is_awaited, 3, 1);
    assert_int_equal(zygote_decode_header(&header, sizeof header, &ret), -EBADMSG);
    header.is_awaited = false;
    header.kind = ZYGOTE_RUN + 1;
    assert_int_equal(zygote_decode_header(&header, sizeof header, &ret), -EBADMSG);
}

/* Each is a plan that would have made another jail, or none. */
static void plans_that_break_the_rules(void **state)
{
    (void)state;
    for (uint32_t left_out = 0; left_out < LEAST_STEPS; left_out++) {
        CLEANUP(plan_freep) struct jail_plan *plan = least_plan();
        plan->n_steps--;
        memmove(&plan->steps[left_out], &plan->steps[left_out + 1],
                (plan->n_steps - left_out) * sizeof plan->steps[0]);
        CLEANUP(buf_free) struct buf message = message_of(plan);
        struct jail_plan *read = NULL;
        assert_int_equal(zygote_decode_plan(message.data, message.len, &read), -EBADMSG);
        assert_null(read);
    }
    CLEANUP(plan_freep) struct jail_plan *empty = least_plan();
    empty->n_steps = 0;
    CLEANUP(buf_free) struct buf message = message_of(empty);
    struct jail_plan *read = NULL;
    assert_int_equal(zygote_decode_plan(message.data, message.len, &read), -EBADMSG);
    assert_int_equal(zygote_decode_plan(message.data, 3, &read), -EBADMSG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_parent_writes_is_read),
        cmocka_unit_test(headers_that_are_none),
        cmocka_unit_test(plans_that_break_the_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
