/* The stock of parked jails: filled while the machine has time for it, handed out one job each, renewed with
 * age. */
#include "server/run/warm_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/policy/policy_file.h"
#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/loop.h"
#include "jail/jail.h"
#include "jail/standby.h"
#include "jail/watch.h"
#include "policy/policy.h"
#include "server/host/host.h"
#include "server/kit/log.h"
#include "server/run/settings.h"

/* A parked jail is replaced at this age, so that none outlives by much what the host looked like when it was
 * made. */
#define AGE_MAX_NS (10 * 60 * NS_PER_S)

/* So many jobs of one template live at once: whoever in the kernel looks for all that share a page (to
 * reclaim it, to see whether it is used) walks through all copies of it, and a template that forks waits
 * meanwhile. From there on a template of its own serves the next ones. */
#define COPIES_MAX 128u

/* Without cgroups nothing else sees what the memory of jails is that wait in images. */
#define WATCH_NS (100 * NS_PER_MS)

#define SUCCESSOR_PAUSE_NS (5 * NS_PER_S)

/* A template of one caller keeps its place at least as long after a job: callers that come by turns, more
 * than there are places, would otherwise start one with each job, and use none. */
#define KEEPS_PLACE_NS (10 * NS_PER_S)

/* Of those that have been relieved for their age or their jobs; each has memory of its own as long as one job
 * of it runs. */
#define LINGERING_MAX 8

/* To start an interpreter keeps a processor busy for longer than most jobs run, beside one that has just
 * begun: it may end first. */
#define SHORT_JOB_NS (50 * NS_PER_MS)

static void measure(struct warm_jail *jail)
{
    struct warm_template *template = jail->template;
    if (template->pss_bytes == 0) {
        jail_watch_memory(jail->jail, &template->pss_bytes, &template->private_bytes);
        LOG(template->warm->options.log, LOG_INFO, "template_ready",
            LOG_FIELD_STR("runtime", template->runtime->name),
            LOG_FIELD_STR("image", template->image ? template->image->name : ""),
            LOG_FIELD_U64("parked_pss_bytes", template->pss_bytes),
            LOG_FIELD_U64("parked_private_bytes", template->private_bytes));
    }
}

/* One more or less of those that cannot be made at once: /metrics must promise none that is not there. */
static void tell_standbys(const struct warm_template *template)
{
    if (warm_is_standby(template)) {
        template->warm->options.publish(template->warm->options.publish_arg);
    }
}

/* A jail of the stock is ready, or has ended before anybody took it. */
static void on_parked_jail(void *arg, uint32_t events)
{
    (void)events;
    struct warm_jail *jail = arg;
    struct warm_template *template = jail->template;
    struct warm *warm = template->warm;
    switch (jail_dispatch(jail->jail)) {
    case JAIL_PARKED:
        if (!jail->ready) {
            jail->ready = true;
            jail->parked_ns = clock_now_ns();
            template->n_building--;
            template->n_ready++;
            template->state = TEMPLATE_READY;
            if (!template->image) {
                template->failures = 0; /* a stranger's has to show that with a job */
            }
            measure(jail);
            tell_standbys(template);
        }
        break;
    case JAIL_ENDED: {
        struct jail_result result;
        struct err err = {0};
        jail_collect(jail->jail, &result, &err);
        char said[200];
        warm_image_said(jail, said, sizeof said);
        if (said[0]) {
            err_clear(&err);
        }
        err_set(&err, ERR_SETUP, 0, NULL, "a parked jail ended (%s)%s%s", jail_end_to_string(result.end),
                said[0] ? ", and has said: " : "", said);
        warm_template_unstock(jail);
        warm_jail_free(jail);
        warm_template_stumble(template, &err);
        tell_standbys(template);
        return;
    }
    default:
        return;
    }
    warm_tend(warm);
}

/* How many threads want a processor right now, we among them; UINT_MAX where the host does not tell. */
static unsigned count_runnable(const struct warm *warm)
{
    char text[64];
    unsigned runnable;
    ssize_t n = warm->loadavg_fd < 0 ? -1 : pread(warm->loadavg_fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    return sscanf(text, "%*s %*s %*s %u/", &runnable) == 1 ? runnable : UINT_MAX;
}

/* Parks while a processor has nothing else to do, one jail at a time: while fewer jobs run than there are
 * CPUs, or most of them sleep. */
static bool may_park(const struct warm *warm)
{
    return *warm->options.n_jobs < warm->n_cpus || count_runnable(warm) <= warm->n_cpus;
}

static void replace_aged(struct warm_template *template, uint64_t now_ns)
{
    struct warm_jail *oldest = template->stock;
    if (oldest && oldest->ready && now_ns - oldest->parked_ns > AGE_MAX_NS) {
        warm_template_unstock(oldest);
        warm_jail_free(oldest);
    }
}

/* For one of another image. A template that had no other waits for room, as if it had never begun. */
static void give_up_jail(struct warm_jail *jail)
{
    struct warm_template *template = jail->template;
    warm_template_unstock(jail);
    if (template->state == TEMPLATE_STARTING) {
        template->state = TEMPLATE_OFF;
    }
    warm_jail_free(jail);
}

/* What makes way does so at once: it would be back before the next look. */
static bool has_room(const struct warm_template *template)
{
    struct warm_jail *makes_way = NULL;
    while (template->image && !warm_image_has_room(template, &makes_way)) {
        if (!makes_way) {
            return false;
        }
        give_up_jail(makes_way);
    }
    return true;
}

static void tend_template(struct warm_template *template, uint64_t now_ns)
{
    struct err err = {0};
    struct warm_jail *jail;
    if (template->state == TEMPLATE_OFF && now_ns >= template->pause_ns && has_room(template)) {
        warm_template_start(template);
        return;
    }
    if (template->state != TEMPLATE_READY) {
        return;
    }
    replace_aged(template, now_ns);
    unsigned stock = template->n_ready + template->n_building;
    if (stock < template->runtime->warm_jails && template->n_building == 0 && may_park(template->warm) &&
        now_ns >= template->pause_ns && has_room(template) &&
        warm_template_park(template, NULL, &jail, &err) < 0) {
        warm_template_stumble(template, &err);
    }
}

/* Its failures are its own: they are told, and it is started again. */
static void raise_successor(struct warm_template *template, uint64_t now_ns)
{
    struct err err = {0};
    if (!template->successor && now_ns >= template->successor_due_ns &&
        warm_template_new(template->warm, template->runtime, template->policy, template->owner, NULL,
                          &template->successor, &err) < 0) {
        log_err(template->warm->options.log, LOG_WARNING, "no_further_template", &err);
        template->successor_due_ns = now_ns + SUCCESSOR_PAUSE_NS;
    }
    if (template->successor && template->successor->state == TEMPLATE_OFF) {
        template->successor->is_successor = true;
        tend_template(template->successor, now_ns);
    }
}

/* Those that stand ready do not count: however large the stock is, a server without jobs is at rest. */
static bool has_many_copies(const struct warm_template *template)
{
    unsigned n_stock = template->n_ready + template->n_building;
    return template->references > 1 + n_stock + COPIES_MAX && template->state == TEMPLATE_READY &&
           !warm_is_standby(template);
}

/* Those in whose place another has been put, and which a job keeps. */
static unsigned count_lingering(const struct warm *warm)
{
    unsigned n_serving = 0;
    for (const struct warm_template *template = warm->templates; template; template = template->next) {
        n_serving += warm_is_standby(template) ? 0 : template->successor ? 2 : 1;
    }
    return *warm->options.n_templates - n_serving;
}

/* Its jobs know each other's layout and hash seed: time for another. */
static bool is_worn_out(const struct warm_template *template, uint64_t now_ns)
{
    const struct runtime_config *runtime = template->runtime;
    if (template->state != TEMPLATE_READY || template->n_jobs == 0 || warm_is_standby(template)) {
        return false;
    }
    bool many = runtime->template_max_jobs > 0 && template->n_jobs >= runtime->template_max_jobs;
    bool old =
        runtime->template_ttl_ms > 0 && now_ns - template->started_ns >= runtime->template_ttl_ms * NS_PER_MS;
    return (many || old) && count_lingering(template->warm) < LINGERING_MAX;
}

static uint64_t *count_of_replaced(const struct warm_template *template)
{
    const struct warm *warm = template->warm;
    return &warm->n_replaced[template->runtime - warm->options.settings->config->runtimes];
}

static void put_in_place(struct warm_template **at, uint64_t now_ns)
{
    struct warm_template *template = *at, *successor = TAKE_PTR(template->successor);
    LOG(template->warm->options.log, LOG_INFO, "template_replaced",
        LOG_FIELD_STR("runtime", template->runtime->name), LOG_FIELD_U64("jobs", template->n_jobs),
        LOG_FIELD_U64("age_ms", (now_ns - template->started_ns) / NS_PER_MS));
    successor->next = template->next;
    successor->is_successor = false;
    successor->asked_ns = template->asked_ns;
    ++*count_of_replaced(template);
    *at = successor;
    warm_template_retire(template);
}

/* `at` is its place in the list. */
static void look_for_successor(struct warm_template **at, uint64_t now_ns)
{
    struct warm_template *template = *at;
    if (template->successor && template->successor->state == TEMPLATE_READY) {
        put_in_place(at, now_ns);
    } else if (template->successor || has_many_copies(template) || is_worn_out(template, now_ns)) {
        raise_successor(template, now_ns);
    }
}

void warm_tend_empty(struct warm *warm)
{
    uint64_t now_ns = clock_now_ns();
    for (struct warm_template *template = warm->templates; template; template = template->next) {
        if (template->stock) {
            continue;
        }
        if (warm_is_standby(template)) {
            warm_tend_by(warm, now_ns + SHORT_JOB_NS);
        } else {
            tend_template(template, now_ns);
        }
    }
}

/* `at` is its place in the list. */
static void remove_template(struct warm_template **at)
{
    struct warm_template *template = *at;
    *at = template->next;
    warm_template_retire(template);
}

/* There for jobs that have come, and may come no more. */
static bool is_on_demand(const struct warm_template *template)
{
    return template->owner[0] || template->image;
}

/* One of a caller, or in an image, for which no job has come for as long as a template serves at most; or its
 * image is not the one of that name any more. */
static bool is_forgotten(const struct warm_template *template, uint64_t now_ns)
{
    uint64_t ttl_ns = template->runtime->template_ttl_ms * NS_PER_MS;
    return (is_on_demand(template) && ttl_ns > 0 && now_ns - template->asked_ns > ttl_ns) ||
           warm_image_is_gone(template);
}

static void remove_forgotten(struct warm *warm, uint64_t now_ns)
{
    struct warm_template **at = &warm->templates;
    while (*at) {
        if (is_forgotten(*at, now_ns)) {
            remove_template(at);
        } else {
            at = &(*at)->next;
        }
    }
}

static void watch_images(struct warm *warm, uint64_t now_ns)
{
    bool any;
    struct err err = {0};
    struct warm_jail *largest = warm_image_watch(warm, &any);
    if (largest) {
        err_set(&err, ERR_SETUP, ENOMEM, NULL,
                "what stands ready in images holds more than max_image_template_bytes, and this most of it");
        warm_template_fail(largest->template, &err);
    }
    if (any && !warm->options.host->cgroups) {
        warm_tend_by(warm, now_ns + WATCH_NS);
    }
}

void warm_tend(struct warm *warm)
{
    uint64_t now_ns = clock_now_ns();
    if (warm) {
        remove_forgotten(warm, now_ns);
        watch_images(warm, now_ns);
    }
    for (struct warm_template **at = warm ? &warm->templates : NULL; at && *at; at = &(*at)->next) {
        look_for_successor(at, now_ns);
        tend_template(*at, now_ns);
    }
}

static void on_timer(void *arg, uint32_t events)
{
    (void)events;
    struct warm *warm = arg;
    warm->due_ns = clock_now_ns() + NS_PER_S;
    loop_timer_set(warm->timer, warm->due_ns);
    warm_tend(warm);
    warm->options.publish(warm->options.publish_arg);
}

static int add_template(struct warm *warm, const struct runtime_config *runtime, const struct policy *policy,
                        const char *owner, const struct warm_image *image, struct err *reterr)
{
    struct warm_template *template;
    int r = warm_template_new(warm, runtime, policy, owner, image, &template, reterr);
    if (r < 0) {
        return r;
    }
    template->asked_ns = clock_now_ns();
    template->next = warm->templates;
    warm->templates = template;
    return 0;
}

static int add_templates(struct warm *warm, struct err *reterr)
{
    const struct settings *settings = warm->options.settings;
    for (size_t i = 0; i < settings->config->n_runtimes; i++) {
        const struct runtime_config *runtime = &settings->config->runtimes[i];
        const struct policy *policy = settings_warm_policy(settings, runtime);
        bool on_demand = runtime->template[0] && settings->config->template_scope != TEMPLATE_SCOPE_ALL;
        int r = policy && !on_demand ? add_template(warm, runtime, policy, "", NULL, reterr) : 0;
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

int warm_new(const struct warm_options *options, struct warm **ret, struct err *reterr)
{
    struct warm *warm = calloc(1, sizeof *warm);
    if (!warm) {
        return err_errno(reterr, ENOMEM, "preparing warm starts");
    }
    warm->options = *options;
    warm->on_parked_jail = on_parked_jail;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    warm->n_cpus = cpus > 0 ? (unsigned)cpus : 1;
    warm->loadavg_fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    warm->n_replaced = calloc(options->settings->config->n_runtimes + 1, sizeof *warm->n_replaced);
    int r = warm->n_replaced ? loop_add_timer(options->loop, on_timer, warm, &warm->timer, reterr)
                             : err_errno(reterr, ENOMEM, "preparing warm starts");
    r = r < 0 ? r : add_templates(warm, reterr);
    if (r < 0) {
        warm_free(warm);
        return r;
    }
    on_timer(warm, 0);
    *ret = warm;
    return 0;
}

void warm_free(struct warm *warm)
{
    if (!warm) {
        return;
    }
    while (warm->templates) {
        remove_template(&warm->templates);
    }
    loop_remove(warm->timer);
    fd_closep(&warm->loadavg_fd);
    free(warm->n_replaced);
    free(warm);
}

static struct warm_template *find_template(const struct warm *warm, const struct runtime_config *runtime,
                                           const struct policy *policy, const char *owner,
                                           const struct warm_image *image)
{
    for (struct warm_template *template = warm->templates; template; template = template->next) {
        if (template->runtime == runtime && template->policy == policy &&
            strcmp(template->owner, owner) == 0 && warm_image_is(template, image)) {
            return template;
        }
    }
    return NULL;
}

/* The place of the one in an image, or of a caller, that has waited longest for a job; NULL: there is none.
 */
static struct warm_template **find_idle(struct warm *warm, bool in_image, unsigned *ret_n)
{
    struct warm_template **idle = NULL;
    *ret_n = 0;
    for (struct warm_template **at = &warm->templates; *at; at = &(*at)->next) {
        if (is_on_demand(*at) && !(*at)->image == !in_image) {
            ++*ret_n;
            idle = !idle || (*at)->asked_ns < (*idle)->asked_ns ? at : idle;
        }
    }
    return idle;
}

static bool may_have_template(const struct settings *settings, const struct runtime_config *runtime,
                              const struct policy *policy, bool in_image)
{
    return in_image ? runtime->warm_jails > 0 && settings->config->max_image_templates > 0 &&
                          (runtime->standby[0] || warm_is_preloaded(runtime))
                    : settings_warm_policy(settings, runtime) == policy;
}

/* The first job of a caller, or in an image: its template is started as soon as there is time for it. */
static void add_on_demand(struct warm *warm, const struct runtime_config *runtime,
                          const struct policy *policy, const char *owner, const struct warm_image *image)
{
    const struct settings *settings = warm->options.settings;
    uint64_t now_ns = clock_now_ns();
    unsigned n;
    struct warm_template **idle = find_idle(warm, image, &n);
    bool full = n >= (image ? settings->config->max_image_templates : settings->config->max_templates);
    if (!may_have_template(settings, runtime, policy, image) ||
        (full && now_ns - (*idle)->asked_ns < KEEPS_PLACE_NS)) {
        return;
    }
    if (full) {
        remove_template(idle);
    }
    struct err err = {0};
    if (add_template(warm, runtime, policy, owner, image, &err) < 0) {
        log_err(warm->options.log, LOG_WARNING, "no_further_template", &err);
        return;
    }
    warm_tend_by(warm, now_ns + SHORT_JOB_NS);
}

struct warm_jail *warm_take(struct warm *warm, const struct runtime_config *runtime,
                            const struct policy *policy, const struct jail_plan *plan,
                            const struct session_workspace *session, const char *owner,
                            const struct warm_image *image)
{
    if (!runtime->template[0] || image) {
        owner = ""; /* no two jobs share anything */
    }
    struct warm_template *template = find_template(warm, runtime, policy, owner, image);
    if (!template && (owner[0] || image)) {
        add_on_demand(warm, runtime, policy, owner, image);
    }
    if (template) {
        template->asked_ns = clock_now_ns();
    }
    if (!template || template->state != TEMPLATE_READY || (session && !template->session_plan)) {
        return NULL;
    }
    /* To start an interpreter now is what the job can do itself. */
    if (warm_is_standby(template) && (!template->stock || !jail_standby_fits(template->park_plan, plan))) {
        return NULL;
    }
    struct warm_jail *jail = session ? NULL : template->stock; /* the oldest: ready if any is */
    struct err err = {0};
    if (!jail && warm_template_park(template, session, &jail, &err) < 0) {
        warm_template_stumble(template, &err);
        return NULL;
    }
    if (jail_dispatch(jail->jail) == JAIL_ENDED) {
        on_parked_jail(jail, 0);
        return NULL;
    }
    warm_template_unstock(jail);
    template->n_jobs++;
    template->failures = 0;
    tell_standbys(template);
    return jail;
}

static void count_jails(const struct warm *warm, const struct runtime_config *runtime, struct warm_count *ret)
{
    for (const struct warm_template *template = warm->templates; template; template = template->next) {
        if (template->runtime == runtime && template->image) {
            ret->in_images += template->n_ready;
        } else if (template->runtime == runtime) {
            ret->parked += template->n_ready;
            ret->building += template->n_building;
            ret->pss_bytes = template->pss_bytes ? template->pss_bytes : ret->pss_bytes;
        }
    }
}

size_t warm_counts(const struct warm *warm, struct warm_count *ret, size_t max)
{
    const struct settings *settings = warm->options.settings;
    size_t n = 0;
    for (size_t i = 0; i < settings->config->n_runtimes && n < max; i++) {
        const struct runtime_config *runtime = &settings->config->runtimes[i];
        if (settings_warm_policy(settings, runtime)) {
            ret[n] = (struct warm_count){.runtime = runtime->name, .replaced = warm->n_replaced[i]};
            count_jails(warm, runtime, &ret[n++]);
        }
    }
    return n;
}
