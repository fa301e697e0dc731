/* struct otlp: sends spans to a collector, by OTLP over HTTP with JSON. */
#pragma once

struct err;
struct log;
struct loop;
struct metrics;
struct otlp;
struct server_config;
struct spans;

/* Before the process is confined: the collector's name is looked up. All that it is given outlives it. */
int otlp_new(struct loop *loop, struct log *log, struct metrics *metrics, const struct server_config *config,
             struct spans *spans, struct otlp **ret, struct err *reterr);
void otlp_free(struct otlp *otlp); /* takes NULL */
/* After each round of the loop. */
void otlp_run(struct otlp *otlp);
