/* Requests as the HTTP server tells of them. */
#pragma once

struct body_reading;
struct deadline;
struct front;
struct http_events;

/* What the HTTP server calls; its `arg` is the struct front. */
extern const struct http_events inbound_events;

/* A large body has been decoded (server/jobs/decoder.h). */
void inbound_decoded(void *owner, struct body_reading *reading);
/* Time to say that a key is none (server/front/guesses.h). */
void inbound_refuse_key(void *arg, struct deadline *held);

/* The series of HTTP requests that are there from the start, at 0. */
void inbound_begin_figures(const struct front *front);
