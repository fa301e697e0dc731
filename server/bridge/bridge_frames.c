/* What the frames of a program mean: calls, results, events. Runs in the front; the bytes are a program's, so
 * whatever breaks the rules closes this bridge and nothing else. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/json.h"
#include "config/message/job.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/io.h"
#include "server/bridge/bridge.h"
#include "server/bridge/bridge_internal.h"

#define NAME_BYTES_MAX    256u
#define OUTPUTS_MAX       JOB_NAMED_MAX
#define OUTPUTS_BYTES_MAX 65536u

_Static_assert(JSON_REWRITTEN_KEYS_MAX == 65536, "what why_not_written() says");

enum member {
    MEMBER_OP,
    MEMBER_ID,
    MEMBER_NAME,
    MEMBER_ARGS,
    MEMBER_DATA,
    MEMBER_FILES,
    MEMBER_KIND,
    MEMBER_TYPE,
    MEMBERS
};
static const char *const member_names[MEMBERS] = {"op",   "id",    "name", "args",
                                                  "data", "files", "kind", "type"};

struct frame {
    struct json_slice members[MEMBERS];
    uint64_t id;
};

typedef void (*frame_fn)(struct bridge *bridge, const struct frame *frame);

char *bridge_decode_string(const struct json_slice *slice)
{
    struct json_doc *doc;
    if (slice->type != JSON_STRING || json_parse(slice->text, slice->size, &doc, NULL) < 0) {
        return NULL;
    }
    char *text = strdup(json_string(json_root(doc)));
    json_free(doc);
    return text;
}

bool bridge_read_number(const struct json_slice *slice, uint64_t *ret)
{
    char digits[17] = "";
    if (slice->type != JSON_NUMBER || slice->size >= sizeof digits) {
        return false;
    }
    memcpy(digits, slice->text, slice->size);
    return io_parse_u64(digits, ret) == 0;
}

static const char *why_not_written(int r)
{
    switch (r) {
    case -EEXIST:
        return "call_tool: the arguments have the same key twice";
    case -E2BIG:
        return "call_tool: an object in the arguments has more than 65536 keys";
    default:
        return "call_tool: out of memory";
    }
}

static void handle_call(struct bridge *bridge, const struct frame *frame)
{
    const struct json_slice *name = &frame->members[MEMBER_NAME], *args = &frame->members[MEMBER_ARGS];
    if (bridge->finishing) {
        return;
    }
    if (name->type != JSON_STRING || args->type != (bridge->limits.evaluator ? JSON_ARRAY : JSON_OBJECT)) {
        bridge_break_off(bridge, "a call without a name or arguments");
        return;
    }
    if (++bridge->calls > bridge->limits.calls) {
        bridge_send_error(bridge, frame->id, "call_tool: this job has called as many tools as it may");
        return;
    }
    CLEANUP(freep) char *text = name->size > NAME_BYTES_MAX ? NULL : bridge_decode_string(name);
    if (!text || !*text) {
        bridge_send_error(bridge, frame->id, "call_tool: that is no name of a tool");
        return;
    }
    CLEANUP(buf_free) struct buf written = BUF_INIT;
    int r = json_rewrite(args, &written);
    struct bridge_call *call = r < 0 ? NULL : calloc(1, sizeof *call);
    if (!call) {
        bridge_send_error(bridge, frame->id, why_not_written(r));
        return;
    }
    size_t size = written.len;
    *call = (struct bridge_call){.bridge = bridge,
                                 .id = frame->id,
                                 .name = TAKE_PTR(text),
                                 .args = buf_steal(&written),
                                 .args_size = size};
    bridge_link_call(bridge, call);
    bridge->events->call(bridge->arg, call);
}

static void free_paths(char **paths, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(paths[i]);
    }
    free(paths);
}

/* NULL, or what is wrong with the list. */
static const char *read_paths(const struct json_slice *slice, char ***ret, size_t *ret_n)
{
    struct json_doc *doc;
    *ret = NULL;
    *ret_n = 0;
    if (slice->type == JSON_ABSENT) {
        return NULL;
    }
    if (slice->type != JSON_ARRAY || slice->size > OUTPUTS_BYTES_MAX ||
        json_parse(slice->text, slice->size, &doc, NULL) < 0) {
        return "set_result: files must be paths, of 64 KiB in all";
    }
    size_t n = json_count(json_root(doc));
    char **paths = n <= OUTPUTS_MAX ? calloc(n + 1, sizeof *paths) : NULL;
    const char *why = n > OUTPUTS_MAX ? "set_result: too many files" : paths ? NULL : "out of memory";
    for (const struct json *item = json_first(json_root(doc)); item && !why; item = json_next(item)) {
        const char *path = json_string(item);
        paths[*ret_n] = path ? strdup(path) : NULL;
        why = paths[*ret_n] ? NULL : "set_result: files must be paths";
        *ret_n += !why;
    }
    json_free(doc);
    if (why) {
        free_paths(paths, *ret_n);
        return why;
    }
    *ret = paths;
    return NULL;
}

static void handle_result(struct bridge *bridge, const struct frame *frame)
{
    const struct json_slice *data = &frame->members[MEMBER_DATA];
    char **paths;
    size_t n;
    if (data->type == JSON_ABSENT) {
        bridge_break_off(bridge, "a result without data");
        return;
    }
    if (data->size > bridge->limits.result_bytes) {
        bridge_send_error(bridge, frame->id, "set_result: the result is too large");
        return;
    }
    const char *why = read_paths(&frame->members[MEMBER_FILES], &paths, &n);
    if (why) {
        bridge_send_error(bridge, frame->id, why);
        return;
    }
    bridge->output.len = 0;
    if (buf_append(&bridge->output, data->text, data->size) < 0) {
        bridge_send_error(bridge, frame->id, "set_result: out of memory");
    } else {
        bridge->events->outputs(bridge->arg, paths, n);
        bridge_send_answer(bridge, frame->id, NULL, NULL, 0);
    }
    free_paths(paths, n);
}

static void handle_event(struct bridge *bridge, const struct frame *frame)
{
    const struct json_slice *kind = &frame->members[MEMBER_KIND], *data = &frame->members[MEMBER_DATA];
    if (!bridge->limits.evaluator || kind->type != JSON_STRING || data->type == JSON_ABSENT) {
        bridge_break_off(bridge, "an event that nobody waits for");
        return;
    }
    bridge->events->event(bridge->arg, kind, data);
}

/* No answer. What is kept of them has limits of its own, and does not count as what calls have sent. */
static void handle_show(struct bridge *bridge, const struct frame *frame)
{
    struct rich_results *results = &bridge->results;
    size_t before = results->bytes, at;
    const char *why = bridge->limits.evaluator ? "a frame of an unknown kind"
                                               : rich_results_add(results, &frame->members[MEMBER_TYPE],
                                                                  &frame->members[MEMBER_DATA], &at);
    if (why) {
        bridge_break_off(bridge, why);
        return;
    }
    bridge->total_bytes -= results->bytes - before;
    if (results->json.len > at && !bridge->finishing) {
        bridge->events->show(bridge->arg, results->json.data + at, results->json.len - at);
    }
}

static const struct {
    const char *op; /* in its quotes */
    frame_fn handle;
} handlers[] = {
    {"\"call\"", handle_call},
    {"\"result\"", handle_result},
    {"\"event\"", handle_event},
    {"\"show\"", handle_show},
};

static void handle_other(struct bridge *bridge, const char *data, size_t size)
{
    const char *why = bridge->finishing ? NULL : bridge->events->other(bridge->arg, data, size);
    if (why) {
        bridge_break_off(bridge, why);
    }
}

void bridge_handle_frame(struct bridge *bridge, const char *data, size_t size)
{
    struct frame frame;
    const char *why;
    if (data[0] == BRIDGE_BINARY) {
        handle_other(bridge, data, size);
        return;
    }
    if (json_split(data, size, member_names, MEMBERS, frame.members, &why) < 0) {
        bridge_break_off(bridge, "a frame that is not JSON");
        return;
    }
    const struct json_slice *op = &frame.members[MEMBER_OP];
    if (!bridge_read_number(&frame.members[MEMBER_ID], &frame.id)) {
        bridge_break_off(bridge, "a frame without a number");
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(handlers); i++) {
        if (op->type == JSON_STRING && op->size == strlen(handlers[i].op) &&
            memcmp(op->text, handlers[i].op, op->size) == 0) {
            handlers[i].handle(bridge, &frame);
            return;
        }
    }
    handle_other(bridge, data, size);
}
