/* What the two halves of bridge.h share: bridge.c (pipes, buffers, calls under way) and bridge_frames.c (what
 * a program's frames mean). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jail/base/buf.h"
#include "server/bridge/bridge.h"
#include "server/kit/rich_results.h"

struct bridge {
    struct loop *loop;
    struct bridge_limits limits;
    const struct bridge_events *events;
    void *arg;
    int in, out; /* ours: what the program writes, and what it reads; -1: closed */
    struct loop_source *in_source, *out_source;
    struct buf received, waiting; /* frames that are not complete or not handled; answers not written */
    size_t handled, written;      /* bytes of each that are done with */
    uint64_t total_bytes, calls;
    struct bridge_call *open; /* calls without an answer */
    unsigned n_open;
    bool closed;    /* for good: what is left in the buffers does not count */
    bool handling;  /* inside handle_frames(), which goes on by itself */
    bool finishing; /* the program has ended: nobody reads answers */
    struct buf output;
    struct rich_results results;
};

/* One complete frame of the program's, without its header; not empty. */
void bridge_handle_frame(struct bridge *bridge, const char *data, size_t size);

/* `call` waits for its answer from now on. */
void bridge_link_call(struct bridge *bridge, struct bridge_call *call);
/* `member`: of the frame, what holds the text; NULL: none. */
void bridge_send_answer(struct bridge *bridge, uint64_t id, const char *member, const char *json_text,
                        size_t size);
/* A text of ours, which needs no escapes. */
void bridge_send_error(struct bridge *bridge, uint64_t id, const char *text);
/* Closes it for good. The last frame says why. */
void bridge_break_off(struct bridge *bridge, const char *why);
