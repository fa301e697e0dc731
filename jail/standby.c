/* The parent's side of standby jails. Runs in the warden. What happens inside is in init_standby.c. */
#include "jail/standby.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/jail_internal.h"
#include "jail/resources/cgroup.h"

#define RUN_TIMEOUT_MS 10000
#define COPY_BYTES     65536u

static bool is_script(const struct jail_step *step)
{
    return step->kind == JAIL_STEP_FILE && step->file.from_input;
}

static const struct jail_step *exec_of(const struct jail_plan *plan)
{
    return &plan->steps[plan->n_steps - 1];
}

/* The bytes of `count` strings that lie one behind the other. */
static size_t run_bytes(const char *text, uint32_t count)
{
    const char *end = text;
    for (uint32_t i = 0; i < count; i++) {
        end += strlen(end) + 1;
    }
    return (size_t)(end - text);
}

static bool same_strings(const struct jail_plan *a, jail_ref run_a, const struct jail_plan *b, jail_ref run_b,
                         uint32_t count)
{
    const char *text_a = jail_plan_string(a, run_a), *text_b = jail_plan_string(b, run_b);
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(text_a, text_b) != 0) {
            return false;
        }
        text_a += strlen(text_a) + 1;
        text_b += strlen(text_b) + 1;
    }
    return true;
}

/* The interpreter and what it is started with, but for the last argument: there one has the script's path. */
static bool same_program(const struct jail_plan *standby, const struct jail_plan *job)
{
    const struct jail_step *a = exec_of(standby), *b = exec_of(job);
    return a->exec.envc == b->exec.envc && a->exec.argc <= b->exec.argc &&
           strcmp(jail_plan_string(standby, a->exec.path), jail_plan_string(job, b->exec.path)) == 0 &&
           same_strings(standby, a->exec.argv, job, b->exec.argv, a->exec.argc - 1) &&
           same_strings(standby, a->exec.envp, job, b->exec.envp, a->exec.envc);
}

static bool same_limits(const struct jail_limits *a, const struct jail_limits *b)
{
    return a->memory_bytes == b->memory_bytes && a->pids == b->pids && a->cpu_percent == b->cpu_percent &&
           a->scratch_bytes == b->scratch_bytes && a->scratch_inodes == b->scratch_inodes;
}

/* Both come from one policy and one runtime: what a job cannot choose need not be looked at. */
static bool same_step(const struct jail_step *a, const struct jail_step *b)
{
    return a->kind == b->kind && (a->kind != JAIL_STEP_RLIMIT ||
                                  (a->rlimit.resource == b->rlimit.resource &&
                                   a->rlimit.soft == b->rlimit.soft && a->rlimit.hard == b->rlimit.hard));
}

/* From `i` on, without files: those are immure's own, and the script. */
static uint32_t skip_files(const struct jail_plan *plan, uint32_t i)
{
    while (i < plan->n_steps && plan->steps[i].kind == JAIL_STEP_FILE) {
        i++;
    }
    return i;
}

static bool same_steps(const struct jail_plan *standby, const struct jail_plan *job)
{
    uint32_t i = skip_files(standby, 0), n = skip_files(job, 0);
    while (i < standby->n_steps && n < job->n_steps && same_step(&standby->steps[i], &job->steps[n])) {
        i = skip_files(standby, i + 1);
        n = skip_files(job, n + 1);
    }
    return i == standby->n_steps && n == job->n_steps;
}

bool jail_standby_fits(const struct jail_plan *standby, const struct jail_plan *job)
{
    return same_limits(&standby->limits, &job->limits) && same_steps(standby, job) &&
           same_program(standby, job);
}

static int copy_script(int from, uint64_t offset, uint64_t size_bytes, int to)
{
    char buffer[COPY_BYTES];
    while (size_bytes > 0) {
        size_t want = size_bytes < sizeof buffer ? (size_t)size_bytes : sizeof buffer;
        ssize_t n = pread(from, buffer, want, (off_t)offset);
        if (n <= 0) {
            return n < 0 ? -errno : -ENODATA;
        }
        if (write(to, buffer, (size_t)n) != n) {
            return errno ? -errno : -ENOSPC;
        }
        offset += (uint64_t)n;
        size_bytes -= (uint64_t)n;
    }
    return 0;
}

int jail_standby_program(const struct jail_plan *standby, const struct jail_plan *job, int input_fd,
                         int *ret_fd, struct err *reterr)
{
    const struct jail_step *exec = exec_of(job);
    const char *all = jail_plan_string(job, exec->exec.argv);
    uint32_t before = exec_of(standby)->exec.argc - (input_fd < 0);
    const char *own = all + run_bytes(all, before);
    CLEANUP(buf_free) struct buf head = BUF_INIT;
    buf_printf(&head, "%u", exec->exec.argc - before);
    buf_putc(&head, '\0');
    buf_append(&head, own, run_bytes(own, exec->exec.argc - before));
    CLEANUP(fd_closep) int fd = memfd_create("program", MFD_CLOEXEC);
    errno = 0;
    int r = fd < 0 || head.failed || write(fd, head.data, head.len) != (ssize_t)head.len ? -ENOMEM : 0;
    for (uint32_t i = 0; r == 0 && input_fd >= 0 && i < job->n_steps; i++) {
        if (is_script(&job->steps[i])) {
            r = copy_script(input_fd, job->steps[i].file.offset, job->steps[i].file.size_bytes, fd);
        }
    }
    if (r < 0 || lseek(fd, 0, SEEK_SET) < 0) {
        return err_errno(reterr, r < 0 ? -r : errno, "copying a program for a standby jail");
    }
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* What it has used until now is the start's, or earlier calls', not the job's. */
static int note_used_cpu(struct jail *jail, struct err *reterr)
{
    struct jail_cgroup_stat stat;
    int r = jail->cgroup ? jail_cgroup_stat(jail->cgroup, &stat, reterr) : 0;
    if (r == 0) {
        jail->spared_cpu_ns = jail->cgroup ? stat.cpu_ns : census_cpu_ns_now(jail->pid);
    }
    return r;
}

int jail_standby_run(struct jail *jail, const struct jail_plan *plan, const int *fds, int program_fd,
                     struct err *reterr)
{
    if (jail->state != JAIL_PARKED || !jail_standby_fits(jail->plan, plan)) {
        return err_set(reterr, ERR_SETUP, EINVAL, NULL,
                       "a program does not fit its standby jail, which is %s",
                       jail_state_to_string(jail->state));
    }
    int r = note_used_cpu(jail, reterr);
    if (r < 0) {
        return r;
    }
    int all[JAIL_PROGRAM_FDS + 1];
    memcpy(all, fds, JAIL_PROGRAM_FDS * sizeof *fds);
    all[JAIL_PROGRAM_FDS] = program_fd;
    const struct parent_message message = {.phase = PHASE_RUN};
    uint64_t now_ns = clock_now_ns();
    jail->plan->limits = plan->limits;
    jail->stands_by = false;
    /* Nothing of a kernel's last program is this one's. */
    jail->end = JAIL_END_NONE;
    jail->called = jail->interrupted = false;
    jail->started_ns = jail->ended_ns = jail->seen_cpu_ns = 0;
    memset(&jail->last, 0, sizeof jail->last);
    r = jail_arm(jail, now_ns + RUN_TIMEOUT_MS * NS_PER_MS);
    r = r < 0 ? r : io_send_fds(jail->control, &message, sizeof message, all, JAIL_PROGRAM_FDS + 1);
    if (r < 0) {
        return err_set(reterr, ERR_SETUP, -r, NULL, "handing a program to a standby jail: %s", strerror(-r));
    }
    jail->state = JAIL_BUILDING;
    jail->cloned_ns = now_ns; /* set-up is what this job waited for */
    return 0;
}

void jail_idle(struct jail *jail, uint64_t cpu_ms)
{
    struct err ignored = {0};
    if (jail->state == JAIL_PARKED && note_used_cpu(jail, &ignored) == 0) {
        jail_arm(jail, 0); /* of a program that could not be handed over */
        jail->called = false;
        jail->end = JAIL_END_NONE;
        jail->idle_cpu_ms = cpu_ms;
    }
}
