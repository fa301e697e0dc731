/* What a key and its team may run at once, over all fronts. Runs in the warden.
 *
 * A front counts its own jobs, and refuses before anything of a request is sent here. But after a reload the
 * jobs of the front before run on, of which the new one knows nothing. */
#include "server/warden/warden_internal.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "config/message/job.h"
#include "config/server/config.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "server/callers/admission.h"
#include "server/callers/auth.h"
#include "server/run/execution.h"
#include "server/run/settings.h"

/* Nobody whose jobs it would have to count. */
static bool is_free(const struct server_config *config, const struct key_config *key,
                    const struct team_config *team)
{
    bool alone = config->n_keys <= 1;
    return !key || (alone && key->max_concurrent_jobs == 0 && !(team && team->max_concurrent_jobs > 0));
}

static bool same_team(const struct team_config *team, const struct server_config *config, const char *key)
{
    const struct caller caller = {.key = server_config_key(config, key), .name = key};
    return team && auth_team(config, &caller) == team;
}

int job_check_load(const struct front *front, const struct job *asked, uint64_t *ret_retry_after_ms,
                   struct err *reterr)
{
    const struct server_config *config = front->settings->config;
    const struct caller caller = {.key = server_config_key(config, asked->key), .name = asked->key};
    const struct team_config *team = auth_team(config, &caller);
    struct admission_load load = {.earliest_end_ns = UINT64_MAX};
    if (!caller.key && !config->open) {
        return err_set(reterr, ERR_DENIED, EPERM, NULL, "this key is not valid any more");
    }
    if (is_free(config, caller.key, team)) {
        return 0;
    }
    uint64_t now_ns = clock_now_ns();
    load.of_key = approvals_handed_over(front->warden, asked->key);
    for (const struct warden_job *job = front->warden->jobs; job; job = job->next) {
        if (job->is_selftest || !job->front) {
            continue;
        }
        const char *name = execution_job(job->execution)->key;
        bool of_key = strcmp(name, asked->key) == 0, of_team = same_team(team, config, name);
        uint64_t left_ms = execution_remaining_ms(job->execution, now_ns);
        load.of_key += of_key;
        load.of_team += of_team;
        if ((of_key || of_team) && left_ms < (load.earliest_end_ns - now_ns) / NS_PER_MS) {
            load.earliest_end_ns = now_ns + left_ms * NS_PER_MS;
        }
    }
    return admission_check_load(config, &caller, &load, now_ns, ret_retry_after_ms, reterr);
}
