/* struct spans: what has happened when, as spans of OpenTelemetry, until they are sent. Never code, output or
 * keys. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct log_field;
struct metrics;
struct spans;

#define TRACEPARENT_BYTES 56

/* A place in a trace. */
struct trace {
    bool sampled;                                  /* else nothing is noted of it */
    char trace_id[33], span_id[17], parent_id[17]; /* lower-case hexadecimal; parent "": none */
};

enum span_kind { SPAN_INTERNAL = 1, SPAN_SERVER, SPAN_CLIENT };

struct span {
    const char *name;
    enum span_kind kind;
    uint64_t start_ns, end_ns; /* clock_now_ns() */
    bool failed;
    const struct log_field *attributes; /* texts that are NULL are left out */
    size_t n_attributes;
};

/* `sample_percent` of the traces that begin here are noted. NULL: out of memory. */
struct spans *spans_new(struct metrics *metrics, unsigned sample_percent);
void spans_free(struct spans *spans); /* takes NULL */

/* Goes on with the caller's trace, or begins one. `traceparent` "" or NULL: there is none. `spans` NULL:
 * nothing is noted. */
void trace_begin(const struct spans *spans, const char *traceparent, struct trace *ret);
/* A new span below `parent`. */
void trace_child(const struct trace *parent, struct trace *ret);
/* For a callee: what it does lies below this span. */
void trace_write(const struct trace *trace, char ret[static TRACEPARENT_BYTES]);

/* Notes a span that has ended. Where too many wait, it is dropped and counted. */
void spans_add(struct spans *spans, const struct trace *trace, const struct span *span);
size_t spans_count(const struct spans *spans);
/* Takes all that wait, as a request's body (ExportTraceServiceRequest); returns how many they are. */
size_t spans_take(struct spans *spans, struct buf *ret);
