/* Building and copying a jail's plan. Runs in whoever plans (warden, command line); only jail_plan_string()
 * and jail_plan_has() are also called between clone and exec, so they must not allocate, lock or touch stdio.
 *
 * What must hold: offset 0 of the arena is the empty string; a failed allocation leaves a plan that
 * jail_plan_check() refuses, never one that looks shorter than it was meant to be. */
#include "jail/plan/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "jail/base/buf.h"
#include "jail/base/io.h"

#define ARENA_FIRST 4096u
#define STEPS_FIRST 64u

struct jail_plan *jail_plan_new(void)
{
    struct jail_plan *plan = calloc(1, sizeof *plan);
    if (!plan) {
        return NULL;
    }
    plan->steps = calloc(STEPS_FIRST, sizeof *plan->steps);
    plan->arena = calloc(ARENA_FIRST, 1);
    if (!plan->steps || !plan->arena) {
        jail_plan_free(plan);
        return NULL;
    }
    plan->cap_steps = STEPS_FIRST;
    plan->arena_cap = ARENA_FIRST;
    plan->arena_size = 1;
    return plan;
}

struct jail_plan *jail_plan_copy(const struct jail_plan *plan)
{
    struct jail_plan *copy = malloc(sizeof *copy);
    if (!copy) {
        return NULL;
    }
    *copy = *plan;
    copy->steps = malloc(plan->cap_steps * sizeof *copy->steps);
    copy->arena = malloc(plan->arena_cap);
    if (!copy->steps || !copy->arena) {
        jail_plan_free(copy);
        return NULL;
    }
    memcpy(copy->steps, plan->steps, plan->n_steps * sizeof *copy->steps);
    memcpy(copy->arena, plan->arena, plan->arena_size);
    return copy;
}

void jail_plan_free(struct jail_plan *plan)
{
    if (plan) {
        free(plan->steps);
        free(plan->arena);
        free(plan);
    }
}

/* Room for `size` more bytes, the first of them at a multiple of `align`. 0: failed, and the plan knows. */
static jail_ref arena_reserve(struct jail_plan *plan, size_t size, size_t align)
{
    uint64_t start = ((uint64_t)plan->arena_size + align - 1) / align * align;
    if (plan->failed || size > JAIL_ARENA_MAX || start + size > JAIL_ARENA_MAX) {
        plan->failed = true;
        return 0;
    }
    uint32_t end = (uint32_t)(start + size);
    if (end > plan->arena_cap) {
        uint32_t cap = plan->arena_cap;
        while (cap < end) {
            cap *= 2;
        }
        unsigned char *arena = realloc(plan->arena, cap);
        if (!arena) {
            plan->failed = true;
            return 0;
        }
        plan->arena = arena;
        plan->arena_cap = cap;
    }
    memset(plan->arena + plan->arena_size, 0, (size_t)start - plan->arena_size);
    plan->arena_size = end;
    return (jail_ref)start;
}

jail_ref jail_plan_bytes(struct jail_plan *plan, const void *data, size_t size, size_t align)
{
    jail_ref ref = arena_reserve(plan, size, align > 0 ? align : 1);
    if (!plan->failed && size > 0) {
        memcpy(plan->arena + ref, data, size);
    }
    return ref;
}

jail_ref jail_plan_text(struct jail_plan *plan, const char *text)
{
    return *text ? jail_plan_bytes(plan, text, strlen(text) + 1, 1) : 0;
}

/* The last slot of `steps` is never part of the plan: it is what callers write to once an allocation has
 * failed. */
struct jail_step *jail_plan_add(struct jail_plan *plan, enum jail_step_kind kind)
{
    if (!plan->failed && plan->n_steps + 1 == plan->cap_steps) {
        struct jail_step *steps = realloc(plan->steps, 2ul * plan->cap_steps * sizeof *steps);
        if (steps) {
            plan->steps = steps;
            plan->cap_steps *= 2;
        } else {
            plan->failed = true;
        }
    }
    struct jail_step *step = &plan->steps[plan->failed ? plan->cap_steps - 1 : plan->n_steps++];
    *step = (struct jail_step){.kind = kind};
    return step;
}

bool jail_plan_has(const struct jail_plan *plan, enum jail_step_kind kind)
{
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        if (plan->steps[i].kind == kind) {
            return true;
        }
    }
    return false;
}

const char *jail_plan_string(const struct jail_plan *plan, jail_ref ref)
{
    if (ref >= plan->arena_size || !memchr(plan->arena + ref, '\0', plan->arena_size - ref)) {
        return "";
    }
    return (const char *)plan->arena + ref;
}

const char *jail_step_path(const struct jail_plan *plan, const struct jail_step *step)
{
    switch (step->kind) {
    case JAIL_STEP_MKDIR:
        return jail_plan_string(plan, step->mkdir.path);
    case JAIL_STEP_FILE:
        return jail_plan_string(plan, step->file.path);
    case JAIL_STEP_SYMLINK:
        return jail_plan_string(plan, step->symlink.path);
    case JAIL_STEP_BIND:
        return jail_plan_string(plan, step->bind.path);
    case JAIL_STEP_TMPFS:
        return jail_plan_string(plan, step->tmpfs.path);
    case JAIL_STEP_PROC:
        return jail_plan_string(plan, step->proc.path);
    case JAIL_STEP_SCRATCH:
        return jail_plan_string(plan, step->scratch.path);
    case JAIL_STEP_SUBMOUNT:
        return jail_plan_string(plan, step->submount.path);
    case JAIL_STEP_WORKSPACE:
        return jail_plan_string(plan, step->workspace.path);
    default:
        return NULL;
    }
}

/* What stands before the steps and the arena of an encoded plan. */
struct encoded_plan {
    uint64_t
        size_bytes; /* of everything; with the sizes below it also tells one build's layout from another's */
    uint32_t step_size, n_steps, arena_size;
    uint32_t uid, gid;
    uint64_t namespaces;
    struct jail_limits limits;
};

int jail_plan_encode(const struct jail_plan *plan, struct buf *ret)
{
    struct encoded_plan header;
    memset(&header, 0, sizeof header); /* padding must not carry what was on the stack */
    size_t steps_size = plan->n_steps * sizeof *plan->steps;
    header.size_bytes = sizeof header + steps_size + plan->arena_size;
    header.step_size = sizeof *plan->steps;
    header.n_steps = plan->n_steps;
    header.arena_size = plan->arena_size;
    header.uid = plan->uid;
    header.gid = plan->gid;
    header.namespaces = plan->namespaces;
    header.limits = plan->limits;
    buf_append(ret, &header, sizeof header);
    buf_append(ret, plan->steps, steps_size);
    buf_append(ret, plan->arena, plan->arena_size);
    return ret->failed ? -ENOMEM : 0;
}

/* The step can be looked at as what it says it is; what it says is jail_plan_check()'s to judge. */
static bool step_is_readable(const struct jail_step *step)
{
    switch (step->kind) {
    case JAIL_STEP_FILE:
        return io_is_bool(&step->file.from_input);
    case JAIL_STEP_SECCOMP:
        return io_is_bool(&step->seccomp.notify);
    case JAIL_STEP_SESSION:
        return io_is_bool(&step->session.terminal);
    default:
        return step->kind < JAIL_STEP_COUNT;
    }
}

static bool steps_are_readable(const struct jail_plan *plan)
{
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        if (!step_is_readable(&plan->steps[i])) {
            return false;
        }
    }
    return true;
}

int jail_plan_decode(const void *data, size_t size, struct jail_plan **ret)
{
    struct encoded_plan header;
    if (size < sizeof header) {
        return -EBADMSG;
    }
    memcpy(&header, data, sizeof header);
    size_t steps_size = (size_t)header.n_steps * sizeof(struct jail_step);
    if (header.size_bytes != size || header.step_size != sizeof(struct jail_step) ||
        header.arena_size > JAIL_ARENA_MAX || size - sizeof header != steps_size + header.arena_size) {
        return -EBADMSG;
    }
    struct jail_plan *plan = calloc(1, sizeof *plan);
    if (!plan) {
        return -ENOMEM;
    }
    plan->steps = malloc(steps_size + sizeof *plan->steps);
    plan->arena = malloc(header.arena_size + 1ul);
    if (!plan->steps || !plan->arena) {
        jail_plan_free(plan);
        return -ENOMEM;
    }
    const unsigned char *from = (const unsigned char *)data + sizeof header;
    memcpy(plan->steps, from, steps_size);
    memcpy(plan->arena, from + steps_size, header.arena_size);
    plan->n_steps = header.n_steps;
    plan->cap_steps = header.n_steps + 1;
    plan->arena_size = header.arena_size;
    plan->arena_cap = header.arena_size + 1;
    plan->uid = header.uid;
    plan->gid = header.gid;
    plan->namespaces = header.namespaces;
    plan->limits = header.limits;
    if (!steps_are_readable(plan)) {
        jail_plan_free(plan);
        return -EBADMSG;
    }
    *ret = plan;
    return 0;
}

bool jail_step_is_wish(const struct jail_step *step)
{
    return step->kind == JAIL_STEP_RLIMIT &&
           (step->rlimit.resource == RLIMIT_NPROC || step->rlimit.resource == RLIMIT_AS);
}
