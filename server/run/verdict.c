/* From struct jail_result to the verdict that callers read. Runs in the warden and in `immure run`.
 *
 * Pure: no system call, no clock. One row per way to end, so that the same end always gives the same verdict.
 */
#include "server/run/verdict.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/jail.h"
#include "policy/hint.h"
#include "policy/policy.h"
#include "server/kit/sentence.h"
#include "server/kit/signals.h"

/* Exit codes of programs that a signal ended, as shells give them. */
enum { EXIT_BY_SIGNAL = 128, EXIT_NONE = -1 };

struct verdict_row {
    enum job_status status;
    int exit_code, signal;
    bool killed, oom;
    void (*explain)(const struct job_result *result, const struct err *setup, struct buf *ret);
};

/* Whole seconds as they are, else with milliseconds: "30", "1.5". */
static void put_seconds(struct buf *ret, uint64_t ms)
{
    buf_printf(ret, "%" PRIu64, ms / 1000);
    if (ms % 1000 != 0) {
        char digits[8];
        snprintf(digits, sizeof digits, ".%03u", (unsigned)(ms % 1000));
        size_t len = strlen(digits);
        while (digits[len - 1] == '0') {
            digits[--len] = '\0';
        }
        buf_puts(ret, digits);
    }
}

static void explain_deadline(const struct job_result *result, const struct err *setup, struct buf *ret)
{
    (void)setup;
    buf_puts(ret, "Execution timed out after ");
    put_seconds(ret, result->limits.timeout_ms);
    buf_puts(ret, " seconds.");
}

static void explain_cpu(const struct job_result *result, const struct err *setup, struct buf *ret)
{
    (void)setup;
    buf_printf(ret, "CPU time limit of %" PRIu64 " ms used up.", result->limits.cpu_ms);
}

static void explain_oom(const struct job_result *result, const struct err *setup, struct buf *ret)
{
    (void)setup;
    buf_printf(ret, "Memory limit of %" PRIu64 " bytes exceeded.", result->limits.memory_bytes);
}

static void explain_cancel(const struct job_result *result, const struct err *setup, struct buf *ret)
{
    (void)result;
    (void)setup;
    buf_puts(ret, "Execution was cancelled.");
}

static void explain_workspace(const struct job_result *result, const struct err *setup, struct buf *ret)
{
    (void)result;
    buf_printf(ret, "The session's workspace %s.", setup->text);
}

static void explain_floor(const struct job_result *result, const struct err *setup, struct buf *ret)
{
    (void)result;
    (void)setup;
    buf_puts(ret, "The host ran short of memory, and this job had grown most.");
}

static void explain_lost(const struct job_result *result, const struct err *setup, struct buf *ret)
{
    (void)result;
    (void)setup;
    buf_puts(ret, "The jail was killed from outside.");
}

static void explain_setup(const struct job_result *result, const struct err *setup, struct buf *ret)
{
    (void)result;
    char sentence[SENTENCE_BYTES];
    sentence_of(setup, sentence);
    buf_puts(ret, sentence[0] != '\0' ? sentence : "the jail could not be built");
}

static const struct verdict_row verdict_rows[] = {
    [JAIL_END_NONE] = {JOB_SETUP_ERROR, EXIT_NONE, 0, false, false, explain_setup},
    [JAIL_END_PROGRAM] = {JOB_SUCCESS, 0, 0, false, false, NULL}, /* refined by the wait status */
    [JAIL_END_SETUP] = {JOB_SETUP_ERROR, EXIT_NONE, 0, false, false, explain_setup},
    [JAIL_END_DEADLINE] = {JOB_TIMEOUT, EXIT_NONE, 0, true, false, explain_deadline},
    [JAIL_END_CPU] = {JOB_EXECUTION_ERROR, EXIT_BY_SIGNAL + SIGXCPU, SIGXCPU, false, false, explain_cpu},
    [JAIL_END_OOM] = {JOB_OOM, EXIT_BY_SIGNAL + SIGKILL, SIGKILL, false, true, explain_oom},
    [JAIL_END_CANCEL] = {JOB_CANCELLED, EXIT_BY_SIGNAL + SIGKILL, SIGKILL, false, false, explain_cancel},
    [JAIL_END_WORKSPACE] = {JOB_EXECUTION_ERROR, EXIT_BY_SIGNAL + SIGXFSZ, SIGXFSZ, false, false,
                            explain_workspace},
    [JAIL_END_FLOOR] = {JOB_OOM, EXIT_BY_SIGNAL + SIGKILL, SIGKILL, false, true, explain_floor},
    [JAIL_END_LOST] = {JOB_EXECUTION_ERROR, EXIT_BY_SIGNAL + SIGKILL, SIGKILL, false, false, explain_lost},
};

/* The call that the policy ends a program for, where it was such a call. */
static void put_ending_call(const struct denied_table *denied, struct buf *ret)
{
    for (uint32_t i = 0; i < denied->n_calls; i++) {
        const struct jail_denied_call *call = &denied->calls[i];
        if (call->ended > 0) {
            buf_puts(ret, ": ");
            call_text(call->arch, call->nr, call->args, ret);
            return;
        }
    }
}

/* The program's own end: its exit code, or 128+n and the signal's name. */
static void apply_wait_status(const struct jail_result *jail, struct job_result *result, struct buf *sentence)
{
    int wstatus = jail->wstatus;
    if (WIFSIGNALED(wstatus)) {
        char name[SIGNAL_NAME_BYTES];
        result->signal = WTERMSIG(wstatus);
        result->exit_code = EXIT_BY_SIGNAL + result->signal;
        buf_printf(sentence, "The program was ended by %s", signal_name(result->signal, name));
        if (result->signal == SIGSYS) {
            buf_puts(sentence, ", a system call that the policy forbids");
            put_ending_call(&jail->denied, sentence);
        }
        buf_putc(sentence, '.');
    } else {
        result->exit_code = WEXITSTATUS(wstatus);
    }
    result->status = result->exit_code == 0 && result->signal == 0 ? JOB_SUCCESS : JOB_EXECUTION_ERROR;
}

/* One that has nothing to say but the name is not added. */
static int add_call(const struct jail_denied_call *from, struct job_denied *ret)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    call_text(from->arch, from->nr, from->args, &text);
    if (!text.failed && strcmp(text.data, ret->name) == 0) {
        return 0;
    }
    struct job_denied_call *calls = realloc(ret->calls, (ret->n_calls + 1) * sizeof *calls);
    if (!calls) {
        return -ENOMEM;
    }
    ret->calls = calls;
    calls[ret->n_calls] = (struct job_denied_call){.call = buf_steal(&text), .count = from->count};
    return calls[ret->n_calls].call ? (ret->n_calls++, 0) : -ENOMEM;
}

static int copy_row(const struct denied_table *table, const struct jail_denied *from, struct job_denied *ret)
{
    char name[64];
    ret->count = from->count;
    ret->name = strdup(from->nr < 0 ? "?" : policy_syscall_name(from->arch, from->nr, name, sizeof name));
    int r = ret->name ? 0 : -ENOMEM;
    for (uint32_t i = 0; r == 0 && i < table->n_calls; i++) {
        const struct jail_denied_call *call = &table->calls[i];
        r = call->nr == from->nr && call->arch == from->arch ? add_call(call, ret) : 0;
    }
    return r;
}

static int copy_denied(const struct denied_table *table, struct job_result *result)
{
    CLEANUP(buf_free) struct buf hint = BUF_INIT;
    if (table->n_rows == 0) {
        return 0;
    }
    result->denied = calloc(table->n_rows, sizeof result->denied[0]);
    if (!result->denied) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < table->n_rows; i++) {
        result->n_denied++;
        int r = copy_row(table, &table->rows[i], &result->denied[i]);
        if (r < 0) {
            return r;
        }
    }
    for (uint32_t i = 0; i < table->n_calls; i++) {
        const struct jail_denied_call *call = &table->calls[i];
        policy_hint(call->arch, call->nr, call->args, call->count, &hint);
    }
    result->hint = table->n_calls > 0 ? buf_steal(&hint) : NULL;
    return table->n_calls == 0 || result->hint ? 0 : -ENOMEM;
}

static void copy_usage(const struct jail_result *jail, struct job_result *result)
{
    result->setup_ns = jail->setup_ns;
    result->duration_ns = jail->duration_ns;
    result->cpu_ns = jail->cpu_ns;
    result->has_cpu = true;
    result->has_memory_peak = jail->memory_peak_bytes != UINT64_MAX;
    result->memory_peak_bytes = result->has_memory_peak ? jail->memory_peak_bytes : 0;
    result->has_pids_peak = jail->pids_peak != UINT64_MAX;
    result->pids_peak = result->has_pids_peak ? jail->pids_peak : 0;
}

static int take_sentence(struct buf *sentence, struct job_result *result)
{
    if (sentence->len == 0 && !sentence->failed) {
        return 0;
    }
    result->error_text = buf_steal(sentence);
    return result->error_text ? 0 : -ENOMEM;
}

static int apply_row(const struct verdict_row *row, const struct jail_result *jail, const struct err *setup,
                     struct job_result *result)
{
    CLEANUP(buf_free) struct buf sentence = BUF_INIT;
    result->status = row->status;
    result->exit_code = row->exit_code;
    result->signal = row->signal;
    result->killed = row->killed;
    result->oom = row->oom;
    if (row->explain) {
        row->explain(result, setup, &sentence);
    } else {
        apply_wait_status(jail, result, &sentence);
    }
    if (row->status == JOB_SETUP_ERROR && setup->step[0] != '\0') {
        result->step = strdup(setup->step);
        if (!result->step) {
            return -ENOMEM;
        }
    }
    return take_sentence(&sentence, result);
}

int verdict_from_jail(const struct jail_result *jail, const struct err *setup, struct job_result *ret)
{
    copy_usage(jail, ret);
    if (jail->end == JAIL_END_SETUP || jail->end == JAIL_END_NONE) {
        ret->has_cpu = ret->has_memory_peak = ret->has_pids_peak = false; /* of the setup, not of a program */
        ret->cpu_ns = ret->memory_peak_bytes = ret->pids_peak = 0;
    }
    int r = apply_row(&verdict_rows[jail->end], jail, setup, ret);
    return r < 0 ? r : copy_denied(&jail->denied, ret);
}

int verdict_from_setup_error(const struct err *setup, struct job_result *ret)
{
    return apply_row(&verdict_rows[JAIL_END_SETUP], NULL, setup, ret);
}
