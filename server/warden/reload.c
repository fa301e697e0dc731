/* SIGHUP: the configuration and every policy are read again, all or nothing.
 *
 * A new front is started with the new settings while the old one goes on serving. Only when the new one has
 * said hello do the new settings count, and the old front drains: its running jobs keep their channel and
 * what they went by. Whatever fails before that leaves everything as it was. Where keys and teams alone have
 * changed, the settings that there are get those, and so does the front: connections, rates and figures stay.
 */
#include "server/warden/warden_internal.h"

#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "server/approvals/approvals.h"
#include "server/audit/trail.h"
#include "server/kit/log.h"
#include "server/run/settings.h"
#include "server/run/warm.h"
#include "server/warden/kept_environment.h"
#include "server/warden/kept_jobs.h"
#include "server/warden/warden.h"

static int load(const struct warden *warden, struct settings **ret, struct err *reterr)
{
    CLEANUP(kept_environment_wipe) struct kept_environment environment = {0};
    int r = kept_environment_restore(warden->environment_fd, &environment, reterr);
    return r < 0
               ? r
               : settings_load(warden->options->config_path, environment.vars, warden->settings, ret, reterr);
}

static int load_and_compare(struct warden *warden, struct settings **ret, struct err *reterr)
{
    CLEANUP(settings_unrefp) struct settings *settings = NULL;
    int r = load(warden, &settings, reterr);
    if (r < 0) {
        return r;
    }
    const char *field = settings_fixed_difference(warden->settings, settings);
    if (field) {
        return err_set(reterr, ERR_CONFIG, 0, field, "%s cannot change while the server runs; restart it",
                       field);
    }
    r = warden_audit_open(warden, settings, &warden->next_audit, reterr);
    if (r == 0) {
        *ret = TAKE_PTR(settings);
    }
    return r;
}

void warden_start_warm(struct warden *warden)
{
    const struct warm_options options = {
        .host = &warden->host,
        .loop = warden->loop,
        .log = warden->log,
        .settings = warden->settings,
        .n_jobs = &warden->n_jobs,
        .n_templates = &warden->n_templates,
        .publish = warden_publish_warm,
        .publish_arg = warden,
    };
    struct err err = {0};
    if (warm_new(&options, &warden->warm, &err) < 0) {
        warden->warm = NULL;
        log_err(warden->log, LOG_WARNING, "no_warm_starts", &err);
    }
}

/* The settings in force are others now. */
static void note_reload(struct warden *warden)
{
    warden->state.reload_refused = false;
    warden->state.reloaded_ms = clock_wall_ms();
    warden->floor_looked_ns = 0; /* another floor may be in force */
    const struct server_config *config = warden->settings->config;
    approvals_configure(warden->approvals, config);
    kept_jobs_configure(warden->kept, config, job_cancel);
    warden_audit_change(warden);
    warden_keys_watch(warden, warden_reload_keys);
    LOG(warden->log, LOG_INFO, "reloaded", LOG_FIELD_U64("runtimes", config->n_runtimes),
        LOG_FIELD_U64("keys", config->n_keys), LOG_FIELD_BOOL("open", config->open));
    settings_log_absent(warden->settings, warden->log);
    settings_log_no_caller(warden->settings, warden->log);
    settings_log_teams_off(warden->settings, warden->log);
    warden_tell_reloaded(warden, NULL);
}

/* Templates, jails that stand ready, the self-test. */
static void begin_again(struct warden *warden)
{
    warm_free(warden->warm);
    warden->warm = NULL;
    warden_start_warm(warden);
    selftest_start(warden);
}

/* Those of the settings that there are; what has been made from them goes on with it: fronts, templates,
 * jails that stand ready. Whoever has lost its key starts nothing any more, over whatever connection. */
static void take_callers(struct warden *warden, struct settings *settings)
{
    server_config_swap_callers(warden->settings->config, settings->config);
    for (struct front *front = warden->fronts; front; front = front->next) {
        if (front->settings == warden->settings) {
            front_send_callers(front);
        }
    }
}

/* Without SIGHUP, nobody wants anything begun again. */
static void reload(struct warden *warden, bool for_keys)
{
    CLEANUP(settings_unrefp) struct settings *settings = NULL;
    struct err err = {0};
    if (warden->draining) {
        return;
    }
    if (!for_keys) {
        warden_tell_reloading(warden);
    }
    if (warden->successor) { /* overtaken by this one */
        struct front *overtaken = warden->successor;
        warden->successor = NULL;
        front_kill(overtaken, "another reload overtook it");
    }
    audit_trail_close(TAKE_PTR(warden->next_audit));
    int r = load_and_compare(warden, &settings, &err);
    r = r < 0 ? r : settings_check_open_files(settings, &err);
    enum settings_change change = r < 0 ? SETTINGS_MORE : settings_change(warden->settings, settings);
    if (change == SETTINGS_CALLERS || (for_keys && change == SETTINGS_SAME)) {
        take_callers(warden, settings);
        note_reload(warden);
        if (!for_keys) {
            begin_again(warden);
        }
        warden_publish_state(warden);
        return;
    }
    r = r < 0 ? r : front_start(warden, settings, &warden->successor, &err);
    if (r < 0) {
        front_drop_successor(warden, &err);
    }
}

void warden_reload(struct warden *warden)
{
    reload(warden, false);
}

void warden_reload_keys(struct warden *warden)
{
    reload(warden, true);
}

static void take_settings(struct warden *warden)
{
    warm_free(warden->warm); /* before the settings, and the log */
    warden->warm = NULL;
    settings_unref(warden->settings);
    warden->settings = settings_ref(warden->current->settings);
    const struct server_config *config = warden->settings->config;
    struct log *log = log_new(2, config->log_format, config->log_level, "warden");
    if (log) {
        log_succeed(log, warden->log);
        log_free(warden->log);
        warden->log = log;
    }
}

void warden_reload_succeeded(struct warden *warden)
{
    struct front *old = warden->current;
    warden->current = warden->successor;
    warden->successor = NULL;
    take_settings(warden);
    note_reload(warden);
    if (old) {
        front_drain(old);
    }
    begin_again(warden);
    warden_publish_state(warden);
}
