/* POST /execute, the reply's half: the verdict and what was captured, as contract words. Runs in the front.
 * Output, file names and contents are the program's own choice; they reach the reply as JSON strings and
 * base64, never as JSON. */
#include "server/doors/execute.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/message/job.h"
#include "jail/base/buf.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "server/doors/content_type.h"
#include "server/kit/capture.h"
#include "server/kit/json_out.h"
#include "server/kit/rich_results.h"
#include "server/kit/signals.h"

#define BRIEF_LISTED_MAX 100u

/* Read and encoded at once; a multiple of 3, so that the pieces' base64 can stand one behind the other. */
#define PIECE_BYTES (3u * 16384u)

static void put_output(struct buf *ret, const struct job_texts *texts)
{
    const struct capture *capture = texts->capture;
    const struct buf *out = &capture->streams[CAPTURE_STDOUT];
    const struct buf *err = &capture->streams[CAPTURE_STDERR];
    json_out_bytes(ret, "stdout", out->data, out->len);
    json_out_bytes(ret, "stderr", err->data, err->len);
    if (!texts->brief) {
        json_out_bytes(ret, "logs", capture->logs.data, capture->logs.len);
    }
    json_out_bool(ret, "truncated",
                  capture->truncated[CAPTURE_STDOUT] || capture->truncated[CAPTURE_STDERR] ||
                      capture->logs_truncated);
    json_out_bool(ret, "stdout_truncated", capture->truncated[CAPTURE_STDOUT]);
    json_out_bool(ret, "stderr_truncated", capture->truncated[CAPTURE_STDERR]);
}

void execute_failure_sentence(const struct job_result *result, char *ret, size_t size)
{
    if (result->error_text) {
        snprintf(ret, size, "%s", result->error_text);
    } else if (result->signal) {
        char name[SIGNAL_NAME_BYTES];
        snprintf(ret, size, "The program was ended by %s.", signal_name(result->signal, name));
    } else {
        snprintf(ret, size, "The program ended with exit code %d.", result->exit_code);
    }
}

/* `error_message` is always there; `error` only where something went wrong: what a timeout is called, what a
 * failed program printed, or else the sentence again. */
static void put_error(struct buf *ret, const struct job_result *result, const struct job_texts *texts)
{
    const struct buf *logs = &texts->capture->logs;
    if (result->status == JOB_SUCCESS) {
        json_out_null(ret, "error_message");
        return;
    }
    char sentence[EXECUTE_SENTENCE_BYTES];
    execute_failure_sentence(result, sentence, sizeof sentence);
    json_out_text(ret, "error_message", sentence);
    if (texts->brief) {
        return;
    }
    if (result->status == JOB_TIMEOUT) {
        json_out_key(ret, "error");
        buf_printf(ret, "\"execution timed out after %gs\"", (double)result->limits.timeout_ms / 1000);
    } else if (logs->len > 0) {
        json_out_bytes(ret, "error", logs->data, logs->len);
    } else {
        json_out_text(ret, "error", sentence);
    }
}

/* Those of a kernel's call need not be asked for. */
static void put_results(struct buf *ret, const struct job_result *result, const struct job_texts *texts)
{
    if (texts->brief || (!texts->results_asked && result->kernel == JOB_KERNEL_NONE)) {
        return;
    }
    json_out_open(ret, "results", '[');
    if (texts->results && texts->results->n > 0) {
        buf_append(ret, texts->results->json.data, texts->results->json.len);
    }
    buf_putc(ret, ']');
    json_out_bool(ret, "results_truncated", texts->results && texts->results->cut);
}

static void put_verdict(struct buf *ret, const struct job_result *result)
{
    char name[SIGNAL_NAME_BYTES];
    json_out_text(ret, "status", job_status_to_string(result->status));
    json_out_i64(ret, "exit_code", result->exit_code);
    json_out_text(ret, "signal", result->signal ? signal_name(result->signal, name) : NULL);
    json_out_bool(ret, "killed", result->killed);
    json_out_bool(ret, "oom", result->oom);
    json_out_u64(ret, "duration_ms", (result->duration_ns + NS_PER_MS / 2) / NS_PER_MS);
    json_out_key(ret, "execution_time");
    buf_printf(ret, "%.6f", (double)result->duration_ns / (double)NS_PER_S);
}

static size_t piece_bytes(uint64_t left)
{
    return left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
}

/* No more than the file had when it was opened: a job of the same session may be writing to it. */
static int put_data(struct buf *ret, int fd, const char *first, size_t first_size, uint64_t size,
                    struct err *reterr)
{
    char piece[PIECE_BYTES];
    uint64_t left = size - first_size;
    json_out_key(ret, "data");
    buf_putc(ret, '"');
    base64_encode(first, first_size, ret);
    while (first_size == PIECE_BYTES && left > 0) {
        ssize_t n = io_read_full(fd, piece, piece_bytes(left));
        if (n < 0) {
            return err_errno(reterr, (int)-n, "reading an output file");
        }
        base64_encode(piece, (size_t)n, ret);
        first_size = (size_t)n;
        left -= (uint64_t)n;
    }
    buf_putc(ret, '"');
    return 0;
}

static int put_file(struct buf *ret, const struct job_texts *texts, const struct job_output_file *file,
                    struct err *reterr)
{
    char first[PIECE_BYTES];
    ssize_t n = file->fd >= 0 ? io_read_full(file->fd, first, piece_bytes(file->size)) : 0;
    if (n < 0) {
        return err_errno(reterr, (int)-n, "reading an output file");
    }
    const char *slash = strrchr(file->path, '/');
    json_out_separator(ret);
    buf_putc(ret, '{');
    json_out_text(ret, "name", slash ? slash + 1 : file->path);
    json_out_text(ret, "mime", mime_of(texts->types, file->path, file->fd >= 0 ? first : NULL, (size_t)n));
    int r =
        file->fd >= 0 && !texts->brief ? put_data(ret, file->fd, first, (size_t)n, file->size, reterr) : 0;
    buf_putc(ret, '}');
    return r;
}

static int put_files(struct buf *ret, const struct job_texts *texts, const struct job_result *result,
                     struct err *reterr)
{
    json_out_open(ret, "files", '[');
    for (size_t i = 0; i < result->n_files; i++) {
        int r = result->files[i].asked ? put_file(ret, texts, &result->files[i], reterr) : 0;
        if (r < 0) {
            return r;
        }
    }
    buf_putc(ret, ']');
    return 0;
}

static void put_output_files(struct buf *ret, const struct job_result *result, const struct job_texts *texts)
{
    size_t n = 0;
    json_out_open(ret, "output_files", '[');
    for (size_t i = 0; i < result->n_files; i++) {
        const struct job_output_file *file = &result->files[i];
        if (!file->written || (n++ >= BRIEF_LISTED_MAX && texts->brief)) {
            continue;
        }
        json_out_separator(ret);
        buf_putc(ret, '{');
        json_out_text(ret, "name", file->path);
        json_out_u64(ret, "size", file->size);
        json_out_bool(ret, "truncated", file->asked && file->fd < 0);
        buf_putc(ret, '}');
    }
    buf_putc(ret, ']');
    json_out_bool(ret, "output_files_truncated",
                  result->files_truncated || (n > BRIEF_LISTED_MAX && texts->brief));
}

static void put_usage(struct buf *ret, const struct job_result *result)
{
    json_out_open(ret, "usage", '{');
    json_out_known(ret, "cpu_ms", result->has_cpu, (result->cpu_ns + NS_PER_MS / 2) / NS_PER_MS);
    json_out_known(ret, "memory_peak_bytes", result->has_memory_peak, result->memory_peak_bytes);
    json_out_known(ret, "pids_peak", result->has_pids_peak, result->pids_peak);
    buf_putc(ret, '}');
    json_out_denied(ret, result);
}

static void put_limits(struct buf *ret, const struct job_result *result)
{
    json_out_open(ret, "limits", '{');
    json_out_limits(ret, &result->limits);
    json_out_text(ret, "enforced_by", result->enforced_by_cgroup ? "cgroup2" : "rlimit");
    buf_putc(ret, '}');
    json_out_text(ret, "policy", result->policy);
    json_out_text(ret, "policy_sha256", result->policy_sha256);
    if (result->image) {
        json_out_text(ret, "image", result->image);
    }
}

int execute_encode(const struct job_result *result, const struct job_texts *texts, struct buf *ret,
                   struct err *reterr)
{
    buf_putc(ret, '{');
    put_output(ret, texts);
    json_out_bytes(ret, "output", texts->output, texts->output_size);
    put_results(ret, result, texts);
    put_verdict(ret, result);
    json_out_u64(ret, "queued_ms", texts->queued_ms);
    put_error(ret, result, texts);
    int r = put_files(ret, texts, result, reterr);
    if (r < 0) {
        return r;
    }
    put_output_files(ret, result, texts);
    put_usage(ret, result);
    put_limits(ret, result);
    if (result->kernel != JOB_KERNEL_NONE) {
        json_out_text(ret, "kernel", job_kernel_to_string(result->kernel));
    }
    if (result->session != JOB_SESSION_NONE) {
        json_out_text(ret, "session", job_session_to_string(result->session));
    }
    json_out_text(ret, "execution_id", texts->execution_id);
    buf_puts(ret, "}\n");
    return ret->failed ? err_errno(reterr, ENOMEM, "writing a reply") : 0;
}
