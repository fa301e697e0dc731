/* How the steps of a plan stand to each other. Pure; runs in the parent, once each step is known to be whole.
 *
 * The rules are tables of sentences. A jail whose steps stand in another order is not a weaker jail but no
 * jail: a filter before no_new_privs is refused by the kernel, a mount after the pivot reaches into the wrong
 * tree, a capability dropped too early makes the step after it fail. Better one sentence here than a riddle
 * in the child. */
#include "jail/plan/plan_order.h"

#include <errno.h>
#include <string.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/plan/plan.h"

#define BIT(name) (1ull << JAIL_STEP_##name)

/* Steps that put something into the new root. */
#define MOUNT_STEPS (BIT(BIND) | BIT(TMPFS) | BIT(PROC) | BIT(SCRATCH) | BIT(SUBMOUNT) | BIT(WORKSPACE))
#define TREE_STEPS  (BIT(MKDIR) | BIT(FILE) | BIT(SYMLINK) | BIT(IMAGE) | MOUNT_STEPS)

/* All INIT rows of steps.def, and all PROGRAM rows. */
enum {
    WHERE_INIT = 1,
    WHERE_PROGRAM = 0,
#define X(name, word, where, doc) INIT_##name = WHERE_##where ? BIT(name) : 0,
#include "jail/plan/steps.def"
#undef X
#define X(name, word, where, doc) +INIT_##name
    INIT_STEPS = 0
#include "jail/plan/steps.def"
#undef X
    ,
    ALL_STEPS = (1ull << JAIL_STEP_COUNT) - 1,
    PROGRAM_STEPS = ALL_STEPS & ~(0ull + INIT_STEPS),
};
_Static_assert(JAIL_STEP_COUNT < 64, "a set of step kinds has 64 bits");

static const struct count_rule {
    enum jail_step_kind kind;
    uint32_t least, most;
    const char *words;
} count_rules[] = {
    {JAIL_STEP_PROPAGATION, 1, 1, "the mounts are cut off from the host's exactly once"},
    {JAIL_STEP_IDENTITY, 1, 1, "the identity is taken exactly once"},
    {JAIL_STEP_LOOPBACK, 0, 1, "loopback is brought up at most once"},
    {JAIL_STEP_EGRESS, 0, 1, "there is at most one way out"},
    {JAIL_STEP_HOSTNAME, 0, 1, "the host name is set at most once"},
    {JAIL_STEP_ROOT, 0, 1, "there is exactly one root"},
    {JAIL_STEP_ROOT_INHERITED, 0, 1, "a root is inherited at most once"},
    {JAIL_STEP_IMAGE, 0, 1, "there is at most one image"},
    {JAIL_STEP_SCRATCH, 0, 1, "the scratch is attached at most once"},
    {JAIL_STEP_WORKSPACE, 0, 1, "the workspace is attached at most once"},
    {JAIL_STEP_PIVOT, 0, 1, "there is exactly one pivot"},
    {JAIL_STEP_ROOT_READONLY, 0, 1, "the root is made read-only exactly once"},
    {JAIL_STEP_STDIO, 0, 1, "descriptors 0, 1 and 2 are set at most once"},
    {JAIL_STEP_BRIDGE, 0, 1, "descriptors 3 and 4 are set at most once"},
    {JAIL_STEP_CAPABILITIES, 1, 1, "capabilities are dropped exactly once"},
    {JAIL_STEP_NO_NEW_PRIVS, 1, 1, "no_new_privs is set exactly once"},
    {JAIL_STEP_PROGRAM, 1, 1, "the program's process is made exactly once"},
    {JAIL_STEP_SESSION, 1, 1, "the program's session is made exactly once"},
    {JAIL_STEP_UMASK, 0, 1, "the umask is set at most once"},
    {JAIL_STEP_WORKDIR, 0, 1, "the working directory is set at most once"},
    {JAIL_STEP_SPECULATION, 0, 1, "speculation is restricted at most once"},
    {JAIL_STEP_LANDLOCK, 0, 1, "Landlock is entered at most once"},
    {JAIL_STEP_NO_SET_ID, 0, 1, "set-ID bits are kept away at most once"},
    {JAIL_STEP_SECCOMP, 0, 1, "there is at most one seccomp filter"},
    {JAIL_STEP_EXEC, 0, 1, "there is exactly one exec"},
    {JAIL_STEP_RUN, 0, 1, "there is at most one run"},
};

/* Steps that come together or not at all: a plan makes a root, pivots to it and ends in exec, or it takes the
 * template's root (which has all that behind it) and ends in run. */
static const struct pair_rule {
    enum jail_step_kind one, other;
    bool together; /* both or neither; else exactly one of them */
    const char *words;
} pair_rules[] = {
    {JAIL_STEP_ROOT, JAIL_STEP_ROOT_INHERITED, false, "there is exactly one root, made or inherited"},
    {JAIL_STEP_EXEC, JAIL_STEP_RUN, false, "there is exactly one exec or run"},
    {JAIL_STEP_ROOT, JAIL_STEP_PIVOT, true, "there is exactly one pivot to a root that was made"},
    {JAIL_STEP_ROOT, JAIL_STEP_ROOT_READONLY, true, "a root that was made is made read-only exactly once"},
    {JAIL_STEP_ROOT, JAIL_STEP_EXEC, true, "a root that was made ends in exec, an inherited one in run"},
    {JAIL_STEP_EXEC, JAIL_STEP_STDIO, true, "descriptors 0, 1 and 2 are the job's before exec"},
};

/* Every step of a kind in `these` stands before every step of a kind in `those`. */
static const struct order_rule {
    uint64_t these, those;
    const char *words;
} order_rules[] = {
    {BIT(PROPAGATION), BIT(ROOT) | TREE_STEPS | BIT(PIVOT), "propagation is cut before anything is mounted"},
    {BIT(IDENTITY), BIT(ROOT) | BIT(ROOT_INHERITED),
     "the identity comes before the root, so that the root belongs to it"},
    {BIT(IDENTITY), TREE_STEPS, "the identity comes before every file and mount"},
    {BIT(ROOT) | BIT(ROOT_INHERITED), TREE_STEPS, "nothing is put into the root before there is one"},
    {BIT(ROOT), BIT(IMAGE), "an image goes below a root that was made"},
    {BIT(IMAGE), MOUNT_STEPS, "an image comes before everything that is mounted on it"},
    {TREE_STEPS, BIT(PIVOT), "nothing is mounted or made after the pivot"},
    {BIT(SCRATCH), BIT(SUBMOUNT), "the scratch is attached before its directories are"},
    {BIT(PIVOT), BIT(ROOT_READONLY), "the root becomes read-only after the pivot"},
    {BIT(ROOT_READONLY), BIT(CAPABILITIES), "capabilities are dropped after the last step that needs one"},
    {BIT(LOOPBACK), BIT(EGRESS), "lo is up before anything listens on it"},
    {BIT(LOOPBACK) | BIT(HOSTNAME), BIT(CAPABILITIES),
     "network and host name come before capabilities are dropped"},
    {BIT(STDIO), BIT(BRIDGE), "the bridge comes after stdio, which lets nothing else through exec"},
    {BIT(CAPABILITIES), BIT(NO_NEW_PRIVS), "capabilities are dropped before no_new_privs"},
    {BIT(NO_NEW_PRIVS), BIT(LANDLOCK) | BIT(NO_SET_ID) | BIT(SECCOMP),
     "no_new_privs comes before Landlock and seccomp"},
    {INIT_STEPS & ~BIT(PROGRAM), BIT(PROGRAM), "what PID 1 does stands before the program's process"},
    {BIT(PROGRAM), PROGRAM_STEPS, "what the program's process does stands behind its birth"},
    {ALL_STEPS & ~(BIT(SECCOMP) | BIT(EXEC) | BIT(RUN)), BIT(SECCOMP), "seccomp is last but exec"},
    {ALL_STEPS & ~(BIT(EXEC) | BIT(RUN)), BIT(EXEC) | BIT(RUN), "exec is the last step"},
};

int plan_broken(const struct jail_plan *plan, uint32_t index, const char *words, struct err *reterr)
{
    int r = err_set(reterr, ERR_SETUP, EINVAL, NULL, "bad plan: %s", words);
    if (reterr && index < plan->n_steps && reterr->step[0] == '\0') {
        jail_plan_describe_step(plan, index, reterr->step, sizeof reterr->step);
    }
    return r;
}

static int check_counts(const struct jail_plan *plan, struct err *reterr)
{
    uint32_t counts[JAIL_STEP_COUNT] = {0};
    uint32_t last[JAIL_STEP_COUNT];
    memset(last, 0xff, sizeof last);
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        counts[plan->steps[i].kind]++;
        last[plan->steps[i].kind] = i;
    }
    for (size_t i = 0; i < ARRAY_SIZE(count_rules); i++) {
        const struct count_rule *rule = &count_rules[i];
        if (counts[rule->kind] < rule->least || counts[rule->kind] > rule->most) {
            return plan_broken(plan, last[rule->kind], rule->words, reterr);
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(pair_rules); i++) {
        const struct pair_rule *rule = &pair_rules[i];
        if ((counts[rule->one] == counts[rule->other]) != rule->together) {
            return plan_broken(plan, last[rule->one], rule->words, reterr);
        }
    }
    return 0;
}

static int check_order(const struct jail_plan *plan, struct err *reterr)
{
    for (size_t i = 0; i < ARRAY_SIZE(order_rules); i++) {
        const struct order_rule *rule = &order_rules[i];
        bool seen_those = false;
        for (uint32_t n = 0; n < plan->n_steps; n++) {
            uint64_t kind = 1ull << plan->steps[n].kind;
            if (seen_those && (kind & rule->these)) {
                return plan_broken(plan, n, rule->words, reterr);
            }
            seen_those |= (kind & rule->those) != 0;
        }
    }
    return 0;
}

/* A mount below a symlink would land where the link points, which nobody has checked. */
static int check_symlinks(const struct jail_plan *plan, struct err *reterr)
{
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        if (plan->steps[i].kind != JAIL_STEP_SYMLINK) {
            continue;
        }
        const char *link = jail_plan_string(plan, plan->steps[i].symlink.path);
        size_t len = strlen(link);
        for (uint32_t n = 0; n < plan->n_steps; n++) {
            const char *path = n == i ? NULL : jail_step_path(plan, &plan->steps[n]);
            if (path && strncmp(path, link, len) == 0 && (path[len] == '/' || path[len] == '\0')) {
                return plan_broken(plan, n, "nothing is made or mounted at or below a symlink of the plan",
                                   reterr);
            }
        }
    }
    return 0;
}

int plan_check_order(const struct jail_plan *plan, struct err *reterr)
{
    int r = check_counts(plan, reterr);
    if (r < 0) {
        return r;
    }
    r = check_order(plan, reterr);
    return r < 0 ? r : check_symlinks(plan, reterr);
}
