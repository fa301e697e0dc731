/* The notebook of `immure policy learn`: each way to make a system call once, each path once, with counts.
 * Runs in the command line. Pure. */
#include "policy/learn/observed.h"

#include <stdlib.h>
#include <string.h>

#include "jail/base/cleanup.h"

#define CALLS_MAX 16384u
#define SLOTS_MIN 1024u

void observed_clear(struct observed *observed)
{
    for (size_t i = 0; i < observed->n_paths; i++) {
        free(observed->paths[i].path);
        free(observed->paths[i].target);
    }
    free(observed->paths);
    free(observed->calls);
    free(observed->slots);
    *observed = (struct observed){0};
}

void observed_add_call(struct observed *observed, int nr, const uint64_t arguments[6])
{
    for (size_t i = observed->n_calls; i-- > 0;) {
        struct observed_call *call = &observed->calls[i];
        if (call->nr == nr && memcmp(call->arguments, arguments, sizeof call->arguments) == 0) {
            call->count++;
            return;
        }
    }
    if (observed->n_calls == CALLS_MAX) {
        observed->full = true;
        return;
    }
    struct observed_call *calls = realloc(observed->calls, (observed->n_calls + 1) * sizeof *observed->calls);
    if (!calls) {
        observed->failed = true;
        return;
    }
    observed->calls = calls;
    struct observed_call *call = &calls[observed->n_calls++];
    call->nr = nr;
    call->count = 1;
    memcpy(call->arguments, arguments, sizeof call->arguments);
}

/* FNV-1a. */
static uint32_t hash_of(const char *text)
{
    uint32_t hash = 2166136261u;
    for (; *text; text++) {
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    }
    return hash;
}

/* Where the path stands, or is to stand; `n_slots` is a power of two, and some are free. */
static uint32_t *slot_of(const struct observed *observed, const char *path)
{
    size_t i = hash_of(path) & (observed->n_slots - 1);
    while (observed->slots[i] && strcmp(observed->paths[observed->slots[i] - 1].path, path) != 0) {
        i = (i + 1) & (observed->n_slots - 1);
    }
    return &observed->slots[i];
}

static void fill_slots(struct observed *observed)
{
    memset(observed->slots, 0, observed->n_slots * sizeof *observed->slots);
    for (size_t i = 0; i < observed->n_paths; i++) {
        *slot_of(observed, observed->paths[i].path) = (uint32_t)i + 1;
    }
}

/* Room for one more. */
static bool grow(struct observed *observed)
{
    if (observed->n_paths * 2 < observed->n_slots) {
        return true;
    }
    size_t n_slots = observed->n_slots ? observed->n_slots * 2 : SLOTS_MIN;
    uint32_t *slots = realloc(observed->slots, n_slots * sizeof *slots);
    if (slots) {
        observed->slots = slots;
    }
    struct observed_path *paths = slots ? realloc(observed->paths, n_slots * sizeof *paths) : NULL;
    if (!paths) {
        return false;
    }
    observed->paths = paths;
    observed->n_slots = n_slots;
    fill_slots(observed);
    return true;
}

/* No line of text holds it. */
static bool has_control_characters(const char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f) {
            return true;
        }
    }
    return false;
}

void observed_add_path(struct observed *observed, const char *path, unsigned how, const char *target)
{
    if (has_control_characters(path) || (target && has_control_characters(target))) {
        observed->n_unnamed++;
        return;
    }
    if (!grow(observed)) {
        observed->failed = true;
        return;
    }
    uint32_t *slot = slot_of(observed, path);
    if (*slot) {
        struct observed_path *known = &observed->paths[*slot - 1];
        known->how |= how;
        known->count++;
        return;
    }
    CLEANUP(freep) char *own = strdup(path);
    CLEANUP(freep) char *own_target = target ? strdup(target) : NULL;
    if (!own || (target && !own_target)) {
        observed->failed = true;
        return;
    }
    observed->paths[observed->n_paths++] =
        (struct observed_path){.path = TAKE_PTR(own), .target = TAKE_PTR(own_target), .how = how, .count = 1};
    *slot = (uint32_t)observed->n_paths;
}

const struct observed_path *observed_find(const struct observed *observed, const char *path)
{
    uint32_t slot = observed->n_slots ? *slot_of(observed, path) : 0;
    return slot ? &observed->paths[slot - 1] : NULL;
}

size_t observed_promote(struct observed *observed)
{
    size_t n = 0;
    for (size_t i = 0; i < observed->n_paths; i++) {
        struct observed_path *path = &observed->paths[i];
        bool only_looked =
            (path->how & (PATH_LOOKED | PATH_READ | PATH_EXECUTED | PATH_CREATED)) == PATH_LOOKED;
        path->how |= only_looked ? PATH_READ : 0;
        n += only_looked;
    }
    return n;
}

static int compare_calls(const void *a, const void *b)
{
    const struct observed_call *one = a, *two = b;
    for (size_t i = 0; one->nr == two->nr && i < ARRAY_SIZE(one->arguments); i++) {
        if (one->arguments[i] != two->arguments[i]) {
            return one->arguments[i] < two->arguments[i] ? -1 : 1;
        }
    }
    return one->nr < two->nr ? -1 : one->nr > two->nr;
}

static int compare_paths(const void *a, const void *b)
{
    const struct observed_path *one = a, *two = b;
    return strcmp(one->path, two->path);
}

void observed_sort(struct observed *observed)
{
    if (observed->n_calls > 0) {
        qsort(observed->calls, observed->n_calls, sizeof *observed->calls, compare_calls);
    }
    if (observed->n_paths > 0) {
        qsort(observed->paths, observed->n_paths, sizeof *observed->paths, compare_paths);
        fill_slots(observed);
    }
}
