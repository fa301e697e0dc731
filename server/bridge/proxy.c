/* The proxy of jails whose policies name hosts. Runs in the front. A jail has no interface but its loopback;
 * there the job's listening socket is, which the front alone holds.
 *
 * What must hold: names are looked up before the front is confined, under the rules of callbacks; how many
 * connections a job has, how fast they come, how long they last and how much goes through is limited; each is
 * counted and has a line in the audit trail, and a job has only so many. */
#include "server/bridge/proxy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config/message/egress.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/loop.h"
#include "server/bridge/callback.h"
#include "server/bridge/egress_internal.h"
#include "server/bridge/proxy_internal.h"
#include "server/kit/log.h"

/* Of one job: so many in each of these times. */
#define ACCEPTS   32u
#define ACCEPT_NS (100 * NS_PER_MS)

/* ---- One job ---- */

static void on_arrival(void *arg, uint32_t events);

/* Those that cannot be had now wait in the socket. */
static void watch(struct proxy_job *job)
{
    bool open = job->n_open < PROXY_CONNECTIONS_MAX && job->n_accepted < ACCEPTS;
    if (!open) {
        loop_remove(TAKE_PTR(job->source));
    } else if (!job->source &&
               loop_add(job->proxy->loop, job->listen_fd, EPOLLIN, on_arrival, job, &job->source, NULL) < 0) {
        job->n_accepted = ACCEPTS; /* and again when the timer ends */
        loop_timer_set(job->timer, clock_now_ns() + ACCEPT_NS);
    }
}

static void on_timer(void *arg, uint32_t events)
{
    (void)events;
    struct proxy_job *job = arg;
    job->n_accepted = 0;
    watch(job);
}

static void on_arrival(void *arg, uint32_t events)
{
    (void)events;
    struct proxy_job *job = arg;
    int fd = accept4(job->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)) {
        return;
    }
    if (job->n_accepted == 0) {
        loop_timer_set(job->timer, clock_now_ns() + ACCEPT_NS);
    }
    job->n_accepted = fd < 0 ? ACCEPTS : job->n_accepted + 1;
    if (fd >= 0) {
        proxy_connection_new(job, fd);
    }
    watch(job);
}

struct proxy_job *proxy_job_new(struct proxy *proxy, const struct tools *who, const struct egress_rule *rules,
                                size_t n_rules, int listen_fd)
{
    struct proxy_job *job = calloc(1, sizeof *job);
    if (!job) {
        close(listen_fd);
        return NULL;
    }
    *job = (struct proxy_job){.proxy = proxy,
                              .who = who,
                              .rules = rules,
                              .n_rules = n_rules,
                              .rule_bytes = calloc(n_rules + 1, sizeof *job->rule_bytes),
                              .listen_fd = listen_fd,
                              .ended = watch};
    if (!job->rule_bytes || fcntl(listen_fd, F_SETFL, O_NONBLOCK) < 0 ||
        loop_add_timer(proxy->loop, on_timer, job, &job->timer, NULL) < 0) {
        proxy_job_free(job);
        return NULL;
    }
    watch(job);
    return job;
}

static void ignore(struct proxy_job *job)
{
    (void)job;
}

void proxy_job_free(struct proxy_job *job)
{
    if (!job) {
        return;
    }
    job->ended = ignore;
    while (job->connections) {
        proxy_connection_end(job->connections, EGRESS_CANCELLED);
    }
    loop_remove(job->source);
    loop_remove(job->timer);
    fd_closep(&job->listen_fd);
    free(job->rule_bytes);
    free(job);
}

/* ---- Life ---- */

/* The loopback is the host's: who writes a policy does not decide about it. */
static bool is_forbidden(const struct callback_config *host)
{
    return callback_url_is_localhost(&host->url) && !host->private_addresses;
}

static int add_host(struct proxy *proxy, const struct egress_rule *rule, struct log *log)
{
    struct callback_config *host = &proxy->hosts[proxy->n_hosts];
    struct buf text = BUF_INIT;
    const char *why;
    buf_printf(&text, "%s://%s:%u/", rule->mode == EGRESS_TLS_ORIGINATION ? "https" : "http", rule->host,
               rule->port);
    host->text = text.failed ? NULL : buf_steal(&text);
    host->private_addresses = server_config_egress_is_private(proxy->config, rule->host);
    buf_free(&text);
    int r = !host->text ? -ENOMEM : callback_url_parse(host->text, &host->url, &why);
    if (r == 0 && is_forbidden(host)) {
        LOG(log, LOG_WARNING, "egress_host_refused", LOG_FIELD_STR("host", rule->host),
            LOG_FIELD_STR("means", "add egress_private_host for it, or jobs cannot reach it"));
        free(host->text);
        *host = (struct callback_config){0};
        return 0;
    }
    proxy->n_hosts++;
    return r;
}

static int add_hosts(struct proxy *proxy, const struct egress_rules *policy, struct log *log,
                     struct err *reterr)
{
    for (size_t i = 0; i < policy->n_rules; i++) {
        int r = add_host(proxy, &policy->rules[i], log);
        if (r < 0) {
            return err_errno(reterr, -r, "preparing for the host \"%s\" of policy %s", policy->rules[i].host,
                             policy->policy);
        }
    }
    return 0;
}

static int start(struct proxy *proxy, struct log *log, const struct egress_policies *policies,
                 struct err *reterr)
{
    size_t n = 0;
    for (size_t i = 0; i < policies->n_policies; i++) {
        n += policies->policies[i].n_rules;
    }
    proxy->hosts = calloc(n + 1, sizeof *proxy->hosts);
    if (!proxy->hosts) {
        return err_errno(reterr, ENOMEM, "preparing the proxy of jobs");
    }
    int r = 0;
    for (size_t i = 0; r == 0 && i < policies->n_policies; i++) {
        r = add_hosts(proxy, &policies->policies[i], log, reterr);
    }
    if (r < 0) {
        return r;
    }
    const struct callback_places places = {
        .entries = proxy->hosts, .n_entries = proxy->n_hosts, .ca_file = proxy->config->callback_ca_file};
    return callback_client_new(proxy->loop, log, &places, &proxy->client, reterr);
}

int proxy_new(struct loop *loop, struct log *log, const struct server_config *config,
              const struct egress_policies *policies, struct proxy **ret, struct err *reterr)
{
    struct proxy *proxy = calloc(1, sizeof *proxy);
    if (!proxy) {
        return err_errno(reterr, ENOMEM, "preparing the proxy of jobs");
    }
    proxy->loop = loop;
    proxy->config = config;
    int r = start(proxy, log, policies, reterr);
    if (r < 0) {
        proxy_free(proxy);
        return r;
    }
    *ret = proxy;
    return 0;
}

void proxy_free(struct proxy *proxy)
{
    if (!proxy) {
        return;
    }
    callback_client_free(proxy->client);
    for (size_t i = 0; i < proxy->n_hosts; i++) {
        free(proxy->hosts[i].text);
    }
    free(proxy->hosts);
    free(proxy);
}

void proxy_run(struct proxy *proxy)
{
    callback_client_run(proxy->client);
}
