/* What connects from the front to others, made before it is confined. Runs in the front. */
#include "server/front/outward.h"

#include <errno.h>

#include "config/server/config.h"
#include "jail/base/err.h"
#include "server/bridge/callback.h"
#include "server/bridge/egress.h"
#include "server/bridge/otlp.h"
#include "server/bridge/proxy.h"
#include "server/jobs/front_context.h"
#include "server/kit/log.h"
#include "server/kit/spans.h"

/* Where nobody has asked for callbacks, a host that cannot make any does without. */
static int start_callbacks(struct front *front, struct err *reterr)
{
    struct err err = {0};
    const struct server_config *config = front->config;
    const struct callback_places places = {.entries = config->callbacks,
                                           .n_entries = config->n_callbacks,
                                           .any = config->callback_any,
                                           .ca_file = config->callback_ca_file,
                                           .max_answer_bytes = config->max_tool_answer_bytes};
    int r = callback_client_new(front->loop, front->log, &places, &front->callbacks, &err);
    if (r < 0 && config->n_callbacks == 0) {
        log_err(front->log, LOG_WARNING, "no_callbacks", &err);
        return 0;
    }
    return r < 0 ? err_set(reterr, err.kind, err.code, err.item, "%s", err.text) : 0;
}

static int start_spans(struct front *front, struct err *reterr)
{
    if (!*front->config->otlp_endpoint) {
        return 0;
    }
    front->spans = spans_new(front->metrics, front->config->otlp_sample_percent);
    return front->spans ? otlp_new(front->loop, front->log, front->metrics, front->config, front->spans,
                                   &front->otlp, reterr)
                        : err_errno(reterr, ENOMEM, "starting to send spans");
}

int outward_start(struct front *front, struct err *reterr)
{
    int r = server_config_has_callbacks(front->config) ? start_callbacks(front, reterr) : 0;
    if (r == 0) {
        r = egress_new(front->loop, front->log, front->config, &front->egress, reterr);
    }
    if (r == 0 && front->egress_policies.n_policies > 0) {
        r = proxy_new(front->loop, front->log, front->config, &front->egress_policies, &front->proxy, reterr);
    }
    return r < 0 ? r : start_spans(front, reterr);
}

void outward_run(struct front *front)
{
    if (front->callbacks) {
        callback_client_run(front->callbacks);
    }
    if (front->proxy) {
        proxy_run(front->proxy);
    }
    if (front->otlp) {
        otlp_run(front->otlp);
    }
}

void outward_end(struct front *front)
{
    callback_client_free(front->callbacks);
    otlp_free(front->otlp);
    spans_free(front->spans);
    egress_free(front->egress);
    proxy_free(front->proxy);
    bind_clear(&egress_policies_table, &front->egress_policies);
}
