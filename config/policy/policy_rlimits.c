/* The resource limits of a policy from their messages. Runs in the warden and the command line.
 *
 * Their unit is the resource's: a number may have it beside it, and no other. */
#include <stdlib.h>
#include <sys/resource.h>

#include "config/format/amount.h"
#include "config/format/check.h"
#include "config/policy/policy.pb-c.h"
#include "config/policy/policy_file.h"
#include "config/policy/policy_message.h"
#include "jail/base/cleanup.h"

static const struct {
    bool known;
    uint32_t resource;
    enum amount_unit unit;
} resources[] = {
#define RESOURCE(name, unit) [IMMURE__RLIMIT_RESOURCE__##name] = {true, RLIMIT_##name, AMOUNT_##unit}
    RESOURCE(AS, BYTES),     RESOURCE(CORE, BYTES),       RESOURCE(CPU, TIME),       RESOURCE(DATA, BYTES),
    RESOURCE(FSIZE, BYTES),  RESOURCE(MEMLOCK, BYTES),    RESOURCE(MSGQUEUE, BYTES), RESOURCE(NICE, PLAIN),
    RESOURCE(NOFILE, PLAIN), RESOURCE(NPROC, PLAIN),      RESOURCE(RSS, BYTES),      RESOURCE(RTPRIO, PLAIN),
    RESOURCE(RTTIME, PLAIN), RESOURCE(SIGPENDING, PLAIN), RESOURCE(STACK, BYTES),
#undef RESOURCE
};

enum amount_unit policy_rlimit_unit(uint32_t resource)
{
    enum amount_unit unit = AMOUNT_PLAIN;
    for (size_t i = 0; i < ARRAY_SIZE(resources); i++) {
        unit = resources[i].known && resources[i].resource == resource ? resources[i].unit : unit;
    }
    return unit;
}

static int check_unit(struct checker *checker, const char *field, enum amount_unit unit)
{
    static const char *const words[] = {[AMOUNT_PLAIN] =
                                            "counts in no unit of this kind; give the number alone",
                                        [AMOUNT_BYTES] = "is a number of bytes (\"8MiB\")",
                                        [AMOUNT_TIME] = "is a number of seconds (\"5s\")"};
    size_t before = fieldpath_push(&checker->path, field);
    unsigned given = source_unit(checker->source, checker->path.text);
    fieldpath_pop(&checker->path, before);
    return given == AMOUNT_PLAIN || given == unit ? 0 : check_fail(checker, field, "%s", words[unit]);
}

static int rlimit_from_message(struct checker *checker, const Immure__Rlimit *message,
                               const struct policy_spec *spec, struct policy_rlimit *ret)
{
    size_t n = (size_t)message->resource;
    if (n >= ARRAY_SIZE(resources) || !resources[n].known) {
        return check_fail(checker, "resource", "there is no such resource");
    }
    *ret = (struct policy_rlimit){
        .resource = resources[n].resource,
        .soft = message->soft,
        .hard = message->has_hard ? message->hard : message->soft,
        .at = check_position(checker, "resource"),
    };
    int r = check_unit(checker, "soft", resources[n].unit);
    r = r < 0 ? r : check_unit(checker, "hard", resources[n].unit);
    if (r < 0) {
        return r;
    }
    for (size_t i = 0; i < spec->n_rlimits; i++) {
        if (spec->rlimits[i].resource == ret->resource) {
            char other[SOURCE_PLACE_TEXT_MAX];
            return check_fail(checker, "resource", "has a limit already (rlimit[%zu])%s", i,
                              check_other_file(checker, spec->rlimits[i].at, other));
        }
    }
    return ret->soft > ret->hard ? check_fail(checker, "soft", "must not be above the hard limit") : 0;
}

int policy_rlimits_from_message(struct checker *checker, const Immure__Policy *message,
                                struct policy_spec *spec)
{
    int r = check_new_array(checker, message->n_rlimit, sizeof *spec->rlimits, &spec->rlimits);
    for (size_t i = 0; r == 0 && i < message->n_rlimit; i++) {
        size_t before = check_enter(checker, "rlimit", i);
        r = check_go_on(checker, rlimit_from_message(checker, message->rlimit[i], spec, &spec->rlimits[i]));
        spec->n_rlimits = i + 1;
        check_leave(checker, before);
    }
    return r;
}
