/* Spans of OpenTelemetry, written as JSON when they end. Runs in the front. How many wait is bounded: a
 * collector that takes none costs memory up to that, and nobody any time. */
#include "server/kit/spans.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "server/kit/ident.h"
#include "server/kit/json_out.h"
#include "server/kit/log.h"
#include "server/kit/metrics.h"

#define WAITING_MAX       2048u
#define WAITING_BYTES_MAX ((size_t)4 << 20)

struct spans {
    struct metrics *metrics;
    unsigned sample_percent;
    struct buf waiting, resource;
    size_t n;
    uint64_t wall_ns; /* what clock_now_ns() is behind the wall's clock */
};

static void put_attribute(struct buf *ret, const struct log_field *field)
{
    char number[32];
    json_out_separator(ret);
    buf_putc(ret, '{');
    json_out_text(ret, "key", field->key);
    json_out_open(ret, "value", '{');
    switch (field->kind) {
    case LOG_STR:
        json_out_text(ret, "stringValue", field->str);
        break;
    case LOG_BOOL:
        json_out_bool(ret, "boolValue", field->boolean);
        break;
    case LOG_U64:
    case LOG_I64:
    case LOG_F64:
        snprintf(number, sizeof number, "%" PRId64,
                 field->kind == LOG_I64   ? field->i64
                 : field->kind == LOG_U64 ? (int64_t)field->u64
                                          : (int64_t)field->f64);
        json_out_text(ret, "intValue", number); /* 64 bits are a text in JSON */
        break;
    }
    buf_puts(ret, "}}");
}

static void put_attributes(struct buf *ret, const struct log_field *fields, size_t n)
{
    json_out_open(ret, "attributes", '[');
    for (size_t i = 0; i < n; i++) {
        if (fields[i].kind != LOG_STR || fields[i].str) {
            put_attribute(ret, &fields[i]);
        }
    }
    buf_putc(ret, ']');
}

static void put_resource(struct spans *spans)
{
    char instance[IDENT_BYTES], host[256] = "";
    ident_fresh(instance);
    gethostname(host, sizeof host - 1);
    const struct log_field fields[] = {
        LOG_FIELD_STR("service.name", "immure"),
        LOG_FIELD_STR("service.version", IMMURE_VERSION),
        LOG_FIELD_STR("service.instance.id", instance),
        LOG_FIELD_STR("host.name", host),
    };
    put_attributes(&spans->resource, fields, ARRAY_SIZE(fields));
}

struct spans *spans_new(struct metrics *metrics, unsigned sample_percent)
{
    struct spans *spans = calloc(1, sizeof *spans);
    if (spans) {
        *spans = (struct spans){.metrics = metrics,
                                .sample_percent = sample_percent,
                                .wall_ns = clock_wall_ns() - clock_now_ns()};
        put_resource(spans);
    }
    return spans;
}

void spans_free(struct spans *spans)
{
    if (spans) {
        buf_free(&spans->waiting);
        buf_free(&spans->resource);
        free(spans);
    }
}

/* Never all zero. */
static void fresh_id(char *ret, size_t bytes)
{
    unsigned char random[16];
    if (getrandom(random, bytes, 0) != (ssize_t)bytes) {
        abort(); /* see ident_fresh() */
    }
    random[0] |= 1;
    for (size_t i = 0; i < bytes; i++) {
        sprintf(ret + 2 * i, "%02x", random[i]);
    }
}

static bool is_chosen(const struct spans *spans)
{
    unsigned char random[2];
    return getrandom(random, sizeof random, 0) == (ssize_t)sizeof random &&
           (random[0] | (unsigned)random[1] << 8) % 100 < spans->sample_percent;
}

void trace_begin(const struct spans *spans, const char *traceparent, struct trace *ret)
{
    *ret = (struct trace){.sampled = false};
    if (!spans) {
        return;
    }
    if (traceparent && *traceparent) {
        memcpy(ret->trace_id, traceparent + 3, 32);
        memcpy(ret->parent_id, traceparent + 36, 16);
        ret->sampled = strtoul(traceparent + 53, NULL, 16) & 1;
    } else {
        ret->sampled = is_chosen(spans);
        fresh_id(ret->trace_id, 16);
    }
    if (ret->sampled) {
        fresh_id(ret->span_id, 8);
    }
}

void trace_child(const struct trace *parent, struct trace *ret)
{
    *ret = *parent;
    if (ret->sampled) {
        memcpy(ret->parent_id, parent->span_id, sizeof ret->parent_id);
        fresh_id(ret->span_id, 8);
    }
}

void trace_write(const struct trace *trace, char ret[static TRACEPARENT_BYTES])
{
    snprintf(ret, TRACEPARENT_BYTES, "00-%.32s-%.16s-01", trace->trace_id, trace->span_id);
}

static void put_time(struct buf *ret, const char *key, uint64_t ns)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, ns);
    json_out_text(ret, key, text);
}

void spans_add(struct spans *spans, const struct trace *trace, const struct span *span)
{
    if (!spans || !trace->sampled) {
        return;
    }
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    buf_putc(&text, '{');
    json_out_text(&text, "traceId", trace->trace_id);
    json_out_text(&text, "spanId", trace->span_id);
    if (trace->parent_id[0] != '\0') {
        json_out_text(&text, "parentSpanId", trace->parent_id);
    }
    json_out_text(&text, "name", span->name);
    json_out_u64(&text, "kind", span->kind);
    put_time(&text, "startTimeUnixNano", spans->wall_ns + span->start_ns);
    put_time(&text, "endTimeUnixNano",
             spans->wall_ns + (span->end_ns > span->start_ns ? span->end_ns : span->start_ns));
    put_attributes(&text, span->attributes, span->n_attributes);
    buf_printf(&text, ",\"status\":{%s}}", span->failed ? "\"code\":2" : "");
    if (text.failed || spans->n >= WAITING_MAX || spans->waiting.len + text.len > WAITING_BYTES_MAX) {
        metrics_add(spans->metrics, METRIC_SPANS, "dropped", NULL, 1);
        return;
    }
    if (spans->n > 0) {
        buf_putc(&spans->waiting, ',');
    }
    buf_append(&spans->waiting, text.data, text.len);
    spans->n++;
}

size_t spans_count(const struct spans *spans)
{
    return spans->n;
}

size_t spans_take(struct spans *spans, struct buf *ret)
{
    size_t n = spans->n;
    buf_puts(ret, "{\"resourceSpans\":[{\"resource\":{");
    buf_append(ret, spans->resource.data, spans->resource.len);
    buf_puts(ret, "},\"scopeSpans\":[{\"scope\":{\"name\":\"immure\",\"version\":\"" IMMURE_VERSION
                  "\"},\"spans\":[");
    buf_append(ret, spans->waiting.data ? spans->waiting.data : "", spans->waiting.len);
    buf_puts(ret, "]}]}]}");
    ret->failed = ret->failed || spans->waiting.failed || spans->resource.failed;
    buf_free(&spans->waiting);
    spans->waiting = BUF_INIT;
    spans->n = 0;
    spans->wall_ns = clock_wall_ns() - clock_now_ns(); /* somebody may have set the wall's clock */
    return n;
}
