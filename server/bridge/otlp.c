/* Spans on their way to a collector. Runs in the front, on its loop. One batch is under way at a time, and
 * none is sent again: what a collector does not take is lost and counted, and nothing else hears of it. */
#include "server/bridge/otlp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/loop.h"
#include "server/bridge/callback.h"
#include "server/kit/log.h"
#include "server/kit/metrics.h"
#include "server/kit/spans.h"

#define INTERVAL_NS      NS_PER_S
#define FULL_BATCH       512u
#define TIMEOUT_MS       10000
#define ANSWER_BYTES_MAX 65536

struct otlp {
    struct loop *loop;
    struct loop_source *timer;
    struct log *log;
    struct metrics *metrics;
    struct spans *spans;
    struct callback_config place;
    struct callback_client *client;
    struct callback_transfer *transfer; /* NULL: none is under way */
    const char *header, *secret;        /* NULL: none */
    char url[CALLBACK_URL_BYTES_MAX + 16];
    size_t n_sent; /* spans of the batch that is under way */
    bool armed, failing;
};

static void arm(struct otlp *otlp)
{
    otlp->armed = true;
    loop_timer_set(otlp->timer, clock_now_ns() + INTERVAL_NS);
}

/* One line when it begins, one when it ends. */
static void conclude(struct otlp *otlp, bool failed, const char *why)
{
    metrics_add(otlp->metrics, METRIC_SPANS, failed ? "failed" : "sent", NULL, (double)otlp->n_sent);
    if (failed != otlp->failing) {
        LOG(otlp->log, failed ? LOG_WARNING : LOG_INFO, failed ? "spans_not_sent" : "spans_sent_again",
            LOG_FIELD_STR("error", why));
    }
    otlp->failing = failed;
}

static void on_done(void *arg, const struct callback_answer *answer)
{
    struct otlp *otlp = arg;
    char why[64];
    bool failed = answer->outcome == CALLBACK_FAILED || answer->status < 200 || answer->status > 299;
    snprintf(why, sizeof why, "HTTP %ld", answer->status);
    otlp->transfer = NULL;
    conclude(otlp, failed, answer->outcome == CALLBACK_FAILED ? answer->why : why);
}

static void send_batch(struct otlp *otlp)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT;
    otlp->n_sent = spans_take(otlp->spans, &body);
    const struct callback_request request = {.url = otlp->url,
                                             .body = body.data,
                                             .body_size = body.len,
                                             .traceparent = "",
                                             .secret = "",
                                             .header = otlp->header,
                                             .header_value = otlp->secret,
                                             .timeout_ms = TIMEOUT_MS,
                                             .done = on_done,
                                             .arg = otlp};
    if (body.failed || callback_post(otlp->client, &request, &otlp->transfer) < 0) {
        conclude(otlp, true, "out of memory");
    }
}

static void on_timer(void *arg, uint32_t events)
{
    (void)events;
    struct otlp *otlp = arg;
    otlp->armed = false;
    if (!otlp->transfer && spans_count(otlp->spans) > 0) {
        send_batch(otlp);
    }
}

void otlp_run(struct otlp *otlp)
{
    size_t n = spans_count(otlp->spans);
    if (!otlp->transfer && n >= FULL_BATCH) {
        send_batch(otlp);
    } else if (!otlp->armed && n > 0) {
        arm(otlp);
    }
    callback_client_run(otlp->client);
}

int otlp_new(struct loop *loop, struct log *log, struct metrics *metrics, const struct server_config *config,
             struct spans *spans, struct otlp **ret, struct err *reterr)
{
    struct otlp *otlp = calloc(1, sizeof *otlp);
    if (!otlp) {
        return err_errno(reterr, ENOMEM, "starting to send spans");
    }
    const struct egress_secret_config *secret = server_config_egress_secret(config, config->otlp_secret);
    *otlp = (struct otlp){
        .loop = loop,
        .log = log,
        .metrics = metrics,
        .spans = spans,
        .header = secret ? config->otlp_header : NULL,
        .secret = secret ? secret->value : NULL,
        .place = {.text = config->otlp_endpoint, .url = config->otlp_url, .private_addresses = true}};
    size_t size = strlen(config->otlp_endpoint);
    bool slash = size > 0 && config->otlp_endpoint[size - 1] == '/';
    snprintf(otlp->url, sizeof otlp->url, "%s%s", config->otlp_endpoint, slash ? "v1/traces" : "/v1/traces");
    const struct callback_places places = {.entries = &otlp->place,
                                           .n_entries = 1,
                                           .ca_file = config->callback_ca_file,
                                           .max_answer_bytes = ANSWER_BYTES_MAX};
    int r = callback_client_new(loop, log, &places, &otlp->client, reterr);
    r = r < 0 ? r : loop_add_timer(loop, on_timer, otlp, &otlp->timer, reterr);
    if (r < 0) {
        otlp_free(otlp);
        return r;
    }
    *ret = otlp;
    return 0;
}

void otlp_free(struct otlp *otlp)
{
    if (otlp) {
        callback_client_free(otlp->client);
        loop_remove(otlp->timer);
        free(otlp);
    }
}
