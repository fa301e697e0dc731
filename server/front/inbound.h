/* Requests as the HTTP server tells of them. */
#pragma once

struct deadline;
struct front;
struct http_events;
struct turn;

/* What the HTTP server calls; its `arg` is the struct front. */
extern const struct http_events inbound_events;

/* A large body's turn to be decoded (server/jobs/turns.h). */
void inbound_take_turn(struct turn *turn);
/* Time to say that a key is none (server/front/guesses.h). */
void inbound_refuse_key(void *arg, struct deadline *held);

/* The series of HTTP requests that are there from the start, at 0. */
void inbound_begin_figures(const struct front *front);
