/* server/jobs/decoder.c: one body at a time, keys by turns, and owners that leave at any moment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/format/json.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/loop.h"
#include "server/jobs/decoder.h"

#define OWNERS_MAX 64

struct owner {
    struct decoding *decoding;
    enum body_outcome outcome;
    char said[16];
    int place; /* in which order it was answered; 0: not yet */
    int *order;
};

struct fixture {
    struct server_config config;
    struct loop *loop;
    struct decoder *decoder;
    int order;
    struct owner owners[OWNERS_MAX];
};

static void done(void *arg, struct body_reading *reading)
{
    struct owner *owner = arg;
    const char *said = reading->doc ? json_string(json_get(json_root(reading->doc), "say")) : "";
    snprintf(owner->said, sizeof owner->said, "%s", said ? said : "");
    owner->outcome = reading->outcome;
    owner->place = ++*owner->order;
    owner->decoding = NULL;
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    *state = fixture;
    fixture->config.n_accounts = 3;
    return loop_new(&fixture->loop, NULL) < 0 ||
                   decoder_new(fixture->loop, &fixture->config, done, &fixture->decoder, NULL) < 0
               ? -1
               : 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    decoder_free(fixture->decoder);
    loop_free(fixture->loop);
    free(fixture);
    return 0;
}

static struct owner *wait_with(struct fixture *fixture, int i, unsigned account, const char *text)
{
    struct owner *owner = &fixture->owners[i];
    *owner = (struct owner){.order = &fixture->order};
    owner->decoding = decoder_wait(fixture->decoder, account, NULL, text, strlen(text), owner);
    assert_non_null(owner->decoding);
    return owner;
}

static void until_answered(struct fixture *fixture, const struct owner *owner)
{
    while (owner->place == 0) {
        assert_int_equal(loop_once(fixture->loop, -1, NULL), 0);
    }
}

static void test_what_is_said(void **state)
{
    struct fixture *fixture = *state;
    const struct owner *good = wait_with(fixture, 0, 0, "{\"say\": \"so\"}");
    const struct owner *bad = wait_with(fixture, 1, 0, "{\"say\": ");
    assert_int_equal(fixture->order, 0); /* nobody is told but from the loop */
    until_answered(fixture, good);
    until_answered(fixture, bad);
    assert_int_equal(good->outcome, BODY_READ);
    assert_string_equal(good->said, "so");
    assert_int_equal(bad->outcome, BODY_NOT_JSON);
}

static void test_keys_by_turns(void **state)
{
    struct fixture *fixture = *state;
    static const unsigned accounts[] = {1, 1, 1, 2, 2, 0};
    static const int places[] = {1, 4, 0, 2, 5, 3}; /* 0: it has left */
    CLEANUP(buf_free) struct buf none = BUF_INIT;
    for (int i = 0; i < 6; i++) {
        wait_with(fixture, i, accounts[i], "{}");
    }
    decoder_leave(fixture->owners[2].decoding, &none);
    until_answered(fixture, &fixture->owners[4]);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(fixture->owners[i].place, places[i]);
    }
}

/* What is being read is kept as long as that takes, and its owner hears nothing. Under the sanitizers this
 * finds text that goes too early, and text that nobody frees. */
static void test_owners_leave(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < OWNERS_MAX; i++) {
        struct buf text = BUF_INIT;
        buf_puts(&text, "{\"say\": \"");
        for (int n = 0; n < 20000; n++) {
            buf_puts(&text, "\\u00e9");
        }
        buf_puts(&text, "\"}");
        assert_false(text.failed);
        struct owner *owner = wait_with(fixture, i, (unsigned)i % 3, text.data);
        decoder_leave(owner->decoding, &text);
        buf_free(&text);
    }
    const struct owner *last = wait_with(fixture, 0, 0, "{}");
    until_answered(fixture, last);
    assert_int_equal(fixture->order, 1);
}

/* A body is being read, others wait, and all goes. */
static void test_the_end(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < 3; i++) {
        wait_with(fixture, i, 0, "{\"say\": \"so\"}");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_is_said, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_keys_by_turns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_owners_leave, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_end, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
