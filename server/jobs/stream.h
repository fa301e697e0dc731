/* struct stream: what a request with `Accept: text/event-stream` hears of its job, as server-sent events. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct buf;
struct err;
struct job_io;
struct loop;
struct request;
struct stream;
struct streams;

/* All of a front's: they share a timer. */
int streams_new(struct loop *loop, uint64_t heartbeat_ms, struct streams **ret, struct err *reterr);
void streams_free(struct streams *streams); /* takes NULL */

/* In the words of the request's door. `io` stays the caller's until stream_end(); NULL: nothing is told of
 * what the program prints. */
int stream_new(struct streams *streams, struct request *request, const struct job_io *io, struct stream **ret,
               struct err *reterr);
void stream_free(struct stream *stream); /* takes NULL */

/* Each takes NULL. */
/* Output has come. */
void stream_wake(struct stream *stream);
/* Somebody wants to know whether anybody reads it. */
void stream_beat(struct stream *stream);
/* The program calls a tool. Where too many calls have not been told yet, this one is not. */
void stream_tool_call(struct stream *stream, const char *name);
/* Something that a run tells of. `event` is a constant of ours, `data` a line of JSON. */
void stream_event(struct stream *stream, const char *event, const struct buf *data);
/* The job has ended: takes its pipes, whose output is complete, and its reply (empty: it was lost). `io`
 * NULL: nothing more is told. */
void stream_end(struct stream *stream, struct job_io *io, struct buf *reply);

/* The next bytes: how many; 0: none now; -1: that was all. */
ssize_t stream_fill(struct stream *stream, char *data, size_t size);
