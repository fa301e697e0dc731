/* What the tests of policy/ share: policies from text, and sentences that refuse them. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/policy/policy_file.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/plan/plan.h"
#include "policy/policy.h"

/* The least that a policy needs, to put more behind. */
#define WORKSPACE "mount { destination: '/workspace' scratch { directory: WORK } }\n"
#define OPEN      "seccomp { default_action: ALLOW }\n"
#define LEAST     "name: 'test'\n" WORKSPACE OPEN

static inline void policy_freep(struct policy **policy)
{
    policy_free(*policy);
}

static inline void plan_freep(struct jail_plan **plan)
{
    jail_plan_free(*plan);
}

static inline struct policy_spec *decode(const char *text)
{
    struct policy_spec *spec = NULL;
    struct err err = {0};
    if (policy_spec_decode_text("test.textproto", text, strlen(text), &spec, &err) < 0) {
        fail_msg("does not decode: %s: %s", err.item, err.text);
    }
    return spec;
}

static inline struct policy *compile(const char *text)
{
    struct policy *policy = NULL;
    struct err err = {0};
    if (policy_compile(decode(text), &policy, &err) < 0) {
        fail_msg("does not compile: %s: %s", err.item, err.text);
    }
    return policy;
}

/* `place`: "LINE:COLUMN" of the error; NULL: it has none or any. */
static inline void assert_policy_refused_at(const char *text, const char *words, const char *place)
{
    static const char origin[] = "test.textproto";
    struct policy *policy = NULL;
    struct err err = {0};
    struct policy_spec *spec = decode(text);
    if (policy_compile(spec, &policy, &err) == 0) {
        policy_free(policy);
        fail_msg("compiles, expected \"%s\":\n%s", words, text);
    }
    assert_int_equal(err.kind, ERR_CONFIG);
    assert_int_equal(strncmp(err.item, origin, strlen(origin)), 0);
    if (place) {
        assert_int_equal(err.item[strlen(origin)], ':');
        assert_string_equal(err.item + strlen(origin) + 1, place);
    }
    if (!strstr(err.text, words)) {
        fail_msg("refused with \"%s\", expected \"%s\":\n%s", err.text, words, text);
    }
}

static inline void assert_policy_refused(const char *text, const char *words)
{
    assert_policy_refused_at(text, words, NULL);
}
