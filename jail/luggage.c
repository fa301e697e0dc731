/* What PID 1 of a jail takes along. Runs in the parent, before it clones PID 1.
 *
 * PID 1 begins as a copy of its parent's memory, and the warden's holds the words of other callers' jobs. So
 * its heap is wiped in the copy (spawn.c), and PID 1's stack by itself (pid1.c); what PID 1 needs lies here.
 */
#include "jail/luggage.h"

#include <errno.h>
#include <stdalign.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "jail/child/child.h"
#include "jail/plan/plan.h"

/* The block's parts, one behind the other. */
struct contents {
    struct child child;
    struct jail_plan plan;
    /* steps, arena, argv, envp */
};

static size_t align_up(size_t size)
{
    return (size + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
}

static const struct jail_step *exec_of(const struct jail_plan *plan)
{
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        if (plan->steps[i].kind == JAIL_STEP_EXEC) {
            return &plan->steps[i];
        }
    }
    return NULL;
}

/* A run of `count` strings in the arena as a NULL-terminated vector. */
static void fill_vector(const struct jail_plan *plan, jail_ref run, uint32_t count, char **ret)
{
    const char *text = jail_plan_string(plan, run);
    for (uint32_t i = 0; i < count; i++) {
        ret[i] = (char *)(uintptr_t)text;
        text += strlen(text) + 1;
    }
    ret[count] = NULL;
}

struct child *luggage_pack(struct luggage *luggage, const struct jail_plan *plan)
{
    const struct jail_step *exec = exec_of(plan);
    if (!exec) {
        errno = EINVAL;
        return NULL;
    }
    size_t steps = align_up(sizeof(struct contents));
    size_t arena = align_up(steps + plan->n_steps * sizeof *plan->steps);
    size_t argv = align_up(arena + plan->arena_size);
    size_t envp = argv + ((size_t)exec->exec.argc + 1) * sizeof(char *);
    size_t size = envp + ((size_t)exec->exec.envc + 1) * sizeof(char *);
    char *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (block == MAP_FAILED) {
        return NULL;
    }
    *luggage = (struct luggage){.block = block, .size = size};
    struct contents *contents = (void *)block;
    contents->plan = *plan;
    contents->plan.steps = (void *)(block + steps);
    contents->plan.arena = (void *)(block + arena);
    memcpy(contents->plan.steps, plan->steps, plan->n_steps * sizeof *plan->steps);
    memcpy(contents->plan.arena, plan->arena, plan->arena_size);
    contents->child.plan = &contents->plan;
    contents->child.argv = (void *)(block + argv);
    contents->child.envp = (void *)(block + envp);
    fill_vector(&contents->plan, exec->exec.argv, exec->exec.argc, contents->child.argv);
    fill_vector(&contents->plan, exec->exec.envp, exec->exec.envc, contents->child.envp);
    return &contents->child;
}

void luggage_free(struct luggage *luggage)
{
    if (luggage->block) {
        munmap(luggage->block, luggage->size);
    }
    luggage->block = NULL;
}
