/* Terminations that came before their runs. Runs in the front. A caller that gives up early may have its two
 * requests arrive in the wrong order, so that a termination without a run waits for it a while. One that
 * comes behind its run means nothing, and would end the next run of that name: so runs that have ended are
 * noted, too. Each key has a share of its own, so that none takes another's away. */
#include "server/callers/terminations.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jail/base/err.h"

static void free_one(struct termination *one)
{
    free(one->execution_id);
    free(one->reason);
    free(one);
}

static bool is_of(const struct termination *one, const struct key_config *key, const char *execution_id)
{
    return one->key == key && strcmp(one->execution_id, execution_id) == 0;
}

static bool has_expired(const struct termination *one, uint64_t now_ns)
{
    return now_ns - one->at_ns > TERMINATIONS_KEPT_NS;
}

/* Makes room for one of this run: what has expired goes, and what there was of it, and the key's oldest. */
static void make_room(struct terminations *all, const struct key_config *key, const char *execution_id,
                      uint64_t now_ns)
{
    size_t of_key = 0;
    for (struct termination **at = &all->newest; *at;) {
        struct termination *one = *at;
        of_key += one->key == key;
        if (has_expired(one, now_ns) || is_of(one, key, execution_id) ||
            (one->key == key && of_key >= TERMINATIONS_PER_KEY)) {
            *at = one->next;
            free_one(one);
        } else {
            at = &one->next;
        }
    }
}

int terminations_note(struct terminations *all, const struct key_config *key, const char *execution_id,
                      const char *reason, bool is_late, uint64_t now_ns, struct err *reterr)
{
    struct termination *one = calloc(1, sizeof *one);
    char *id = strdup(execution_id), *why = reason ? strdup(reason) : NULL;
    if (!one || !id || (reason && !why)) {
        free(one);
        free(id);
        free(why);
        return err_errno(reterr, ENOMEM, "noting a termination");
    }
    make_room(all, key, execution_id, now_ns);
    *one = (struct termination){.next = all->newest,
                                .key = key,
                                .execution_id = id,
                                .reason = why,
                                .is_late = is_late,
                                .at_ns = now_ns};
    all->newest = one;
    return 0;
}

const struct termination *terminations_find(const struct terminations *all, const struct key_config *key,
                                            const char *execution_id, uint64_t now_ns)
{
    const struct termination *one = all->newest;
    while (one && !is_of(one, key, execution_id)) {
        one = one->next;
    }
    return one && !has_expired(one, now_ns) ? one : NULL;
}

void terminations_clear(struct terminations *all)
{
    while (all->newest) {
        struct termination *one = all->newest;
        all->newest = one->next;
        free_one(one);
    }
}
