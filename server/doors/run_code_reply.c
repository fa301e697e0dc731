/* POST /run-code, the reply's half: the evaluator's own words where it came to an end, the verdict where
 * something else ended it. Runs in the front. What the evaluator says came over the bridge, so nothing that a
 * source prints is in it; should a source have got hold of the evaluator itself, it can lie about its own
 * run: every piece is looked at as JSON, and put where it belongs. */
#include "server/doors/run_code.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/json.h"
#include "config/message/job.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "server/kit/function_ids.h"
#include "server/kit/capture.h"
#include "server/kit/json_out.h"

/* Of each list. The evaluator itself stops before that. */
#define LIST_BYTES_MAX (4u * 1024 * 1024)

enum list { LIST_REPORTS, LIST_LOGS, LISTS };
static const struct {
    const char *kind; /* in the evaluator's words, quoted */
    const char *event, *key;
} lists[LISTS] = {
    [LIST_REPORTS] = {"\"report\"", "report", "reports"},
    [LIST_LOGS] = {"\"log\"", "log", "logs"},
};

struct run_code {
    struct function_ids functions;
    struct buf items[LISTS]; /* of the arrays, with their commas */
    struct buf last;
};

int run_code_new(struct function_ids *functions, struct run_code **ret, struct err *reterr)
{
    *ret = calloc(1, sizeof **ret);
    if (!*ret) {
        return err_errno(reterr, ENOMEM, "starting a run");
    }
    (*ret)->functions = *functions;
    *functions = (struct function_ids){0};
    function_ids_seal(&(*ret)->functions);
    return 0;
}

const struct function_ids *run_code_functions(const struct run_code *run)
{
    return &run->functions;
}

void run_code_free(void *state)
{
    struct run_code *run = state;
    for (size_t i = 0; i < LISTS; i++) {
        buf_free(&run->items[i]);
    }
    buf_free(&run->last);
    function_ids_clear(&run->functions);
    free(run);
}

/* Without line feeds, which JSON may have between its tokens and an event's data may not. */
static void put_on_one_line(struct buf *ret, const char *text, size_t size)
{
    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t n = end ? (size_t)(end - text) - at : size - at;
        const char *other = memchr(text + at, '\r', n);
        n = other ? (size_t)(other - text) - at : n;
        buf_append(ret, text + at, n);
        at += n + 1;
    }
}

const char *run_code_note(void *state, const struct json_slice *kind, const struct json_slice *data,
                          const struct buf **ret_data)
{
    struct run_code *run = state;
    for (size_t i = 0; i < LISTS; i++) {
        struct buf *items = &run->items[i];
        if (kind->size != strlen(lists[i].kind) || memcmp(kind->text, lists[i].kind, kind->size) != 0 ||
            items->len + data->size >= LIST_BYTES_MAX) {
            continue;
        }
        run->last.len = 0;
        put_on_one_line(&run->last, data->text, data->size);
        if (items->len > 0) {
            buf_putc(items, ',');
        }
        buf_append(items, run->last.data, run->last.len);
        *ret_data = &run->last;
        return lists[i].event;
    }
    return NULL;
}

enum member { MEMBER_STATUS, MEMBER_RESULT, MEMBER_ERROR, MEMBER_MEMORY, MEMBERS };

static bool is_text(const struct json_slice *slice, const char *quoted)
{
    return slice->type == JSON_STRING && slice->size == strlen(quoted) &&
           memcmp(slice->text, quoted, slice->size) == 0;
}

static bool split_output(const struct job_texts *texts, struct json_slice members[MEMBERS])
{
    static const char *const names[MEMBERS] = {"status", "result", "error", "memoryUsedBytes"};
    const char *why;
    return texts->output_size > 0 &&
           json_split(texts->output, texts->output_size, names, MEMBERS, members, &why) == 0;
}

/* What the evaluator may say of the end: false where it is nothing of that. */
static bool is_end(const struct json_slice members[MEMBERS])
{
    if (is_text(&members[MEMBER_STATUS], "\"success\"")) {
        return members[MEMBER_RESULT].type != JSON_ABSENT;
    }
    return (is_text(&members[MEMBER_STATUS], "\"error\"") ||
            is_text(&members[MEMBER_STATUS], "\"link_error\"")) &&
           members[MEMBER_ERROR].type == JSON_OBJECT;
}

static void put_slice(struct buf *ret, const char *key, const struct json_slice *slice)
{
    json_out_key(ret, key);
    put_on_one_line(ret, slice->text, slice->size);
}

static void put_own_words(struct buf *ret, const struct json_slice members[MEMBERS])
{
    put_slice(ret, "status", &members[MEMBER_STATUS]);
    if (is_text(&members[MEMBER_STATUS], "\"success\"")) {
        put_slice(ret, "result", &members[MEMBER_RESULT]);
    } else {
        put_slice(ret, "error", &members[MEMBER_ERROR]);
    }
}

static void put_failure(struct buf *ret, const char *status, const char *name, const char *message)
{
    json_out_text(ret, "status", status);
    json_out_open(ret, "error", '{');
    json_out_text(ret, "name", name);
    json_out_text(ret, "message", message);
    buf_putc(ret, '}');
}

/* V8 ends its process where its heap is full, and says so. */
static bool heap_was_full(const struct job_result *result, const struct capture *capture)
{
    const struct buf *said = &capture->streams[CAPTURE_STDERR];
    return result->signal != 0 && said->data &&
           (strstr(said->data, "out of memory") || strstr(said->data, "Allocation failed"));
}

/* The evaluator has not come to an end of its own. */
static void put_verdict(struct buf *ret, const struct job_result *result, const struct capture *capture)
{
    char text[128];
    if (result->status == JOB_OOM || heap_was_full(result, capture)) {
        put_failure(ret, "memory", "MemoryError", "The run has used more memory than it may.");
    } else if (result->status == JOB_TIMEOUT) {
        snprintf(text, sizeof text, "The safety cap of %" PRIu64 " ms has ended the run.",
                 result->limits.timeout_ms);
        put_failure(ret, "terminated", "TerminatedError", text);
    } else if (result->status == JOB_CANCELLED) {
        put_failure(ret, "terminated", "TerminatedError",
                    result->error_text ? result->error_text : "The run was terminated.");
    } else {
        snprintf(text, sizeof text, "The evaluator has ended without a result (exit code %d).",
                 result->exit_code);
        put_failure(ret, "error", "InternalError", text);
    }
}

static void put_lists(struct buf *ret, const struct run_code *run)
{
    for (size_t i = 0; i < LISTS; i++) {
        json_out_open(ret, lists[i].key, '[');
        if (run->items[i].len > 0) {
            buf_append(ret, run->items[i].data, run->items[i].len);
        }
        buf_putc(ret, ']');
    }
}

int run_code_encode(const struct job_result *result, const struct job_texts *texts, struct buf *ret,
                    struct err *reterr)
{
    const struct run_code *run = texts->state;
    struct json_slice members[MEMBERS];
    bool said = split_output(texts, members);
    if (said && is_text(&members[MEMBER_STATUS], "\"setup_error\"")) {
        return err_set(reterr, ERR_SETUP, ENOENT, NULL,
                       "TypeScript needs the package esbuild, which this server does not have");
    }
    bool own = said && is_end(members);
    buf_putc(ret, '{');
    if (own) {
        put_own_words(ret, members);
    } else {
        put_verdict(ret, result, texts->capture);
    }
    put_lists(ret, run);
    json_out_key(ret, "durationMs");
    buf_printf(ret, "%.3f", (double)result->duration_ns / (double)NS_PER_MS);
    if (own && members[MEMBER_MEMORY].type == JSON_NUMBER) {
        put_slice(ret, "memoryUsedBytes", &members[MEMBER_MEMORY]);
    } else if (result->has_memory_peak) {
        json_out_u64(ret, "memoryUsedBytes", result->memory_peak_bytes);
    }
    buf_puts(ret, "}\n");
    bool failed = ret->failed || run->items[LIST_REPORTS].failed || run->items[LIST_LOGS].failed;
    return failed ? err_errno(reterr, ENOMEM, "writing a reply") : 0;
}
