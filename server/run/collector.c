/* The collector. Both sides: the warden's, which asks and goes on, and the process's, which lists and matches
 * what one job left (server/run/outputs.c), tells of it and ends.
 *
 * A program chooses how many files it leaves, its caller how many patterns they are held against. What that
 * costs, no other job's deadline may wait for. */
#include "server/run/collector.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "config/message/message.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/helper.h"
#include "jail/base/io.h"
#include "server/run/filler.h"
#include "server/run/outputs.h"

#define PRIORITY 10

struct collector {
    struct helper helper;
};

struct task {
    const struct job *job;
    const struct filled *filled;
    const struct output_limits *limits;
};

/* ---- The process ---- */

static void send_answer(int sock, const struct msg *msg)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT;
    int fds[IO_FDS_MAX];
    size_t n_fds = 0;
    for (size_t i = 0; msg->type == MSG_DONE && i < msg->done.n_files && n_fds < IO_FDS_MAX; i++) {
        if (msg->done.files[i].fd >= 0) {
            fds[n_fds++] = msg->done.files[i].fd;
        }
    }
    if (msg_encode(msg, &data, NULL) == 0) {
        io_send_fds(sock, data.data, data.len, fds, n_fds);
    }
}

static void collector_main(int sock, void *arg)
{
    const struct task *task = arg;
    struct msg msg = {.type = MSG_DONE};
    struct err err = {0};
    struct scratch_list before = task->filled->before;
    int fds[] = {-1, -1};
    size_t n_fds = ARRAY_SIZE(fds);
    char byte;
    setpriority(PRIO_PROCESS, 0, PRIORITY);
    if (io_recv_fds(sock, &byte, sizeof byte, fds, &n_fds) != (ssize_t)sizeof byte || n_fds == 0) {
        return;
    }
    int r = n_fds == 2 ? filler_unpack(fds[1], &before) : 0;
    r = r < 0 ? err_errno(&err, -r, "reading what input files there were")
              : outputs_collect(fds[0], task->job, &before, task->limits, &msg.done, &err);
    if (r < 0) {
        job_result_clear(&msg.done);
        msg = (struct msg){.type = MSG_REFUSED, .refused = {.kind = err.kind}};
        snprintf(msg.refused.text, sizeof msg.refused.text, "%s", err.text);
    }
    send_answer(sock, &msg);
    msg_clear(&msg);
}

/* ---- The warden ---- */

int collector_start(int scratch_fd, const struct job *job, const struct filled *filled,
                    const struct output_limits *limits, struct collector **ret, struct err *reterr)
{
    struct task task = {job, filled, limits};
    struct collector *collector = calloc(1, sizeof *collector);
    int r = collector ? helper_start("immure-files", collector_main, &task, &collector->helper) : -ENOMEM;
    if (r < 0) {
        free(collector);
        return err_errno(reterr, -r, "starting a process that lists output files");
    }
    const int fds[] = {scratch_fd, filled->before_fd};
    r = io_send_fds(collector->helper.sock, "", 1, fds, filled->before_fd >= 0 ? 2 : 1);
    if (r < 0) {
        collector_free(collector);
        return err_errno(reterr, -r, "asking for output files");
    }
    *ret = collector;
    return 0;
}

int collector_fd(const struct collector *collector)
{
    return collector->helper.sock;
}

static int take_answer(struct msg *msg, struct job_result *ret, struct err *reterr)
{
    if (msg->type != MSG_DONE) {
        return err_set(reterr, msg->type == MSG_REFUSED ? msg->refused.kind : ERR_INTERNAL, EIO, NULL, "%s",
                       msg->type == MSG_REFUSED ? msg->refused.text
                                                : "listing output files: a foreign answer");
    }
    ret->files = TAKE_PTR(msg->done.files);
    ret->n_files = msg->done.n_files;
    ret->files_truncated = msg->done.files_truncated;
    msg->done.n_files = 0;
    return 0;
}

int collector_end(struct collector *collector, struct job_result *ret, struct err *reterr)
{
    int fds[IO_FDS_MAX];
    size_t n_fds = ARRAY_SIZE(fds);
    CLEANUP(msg_clear) struct msg msg = {0};
    CLEANUP(freep) char *data = malloc(MSG_BYTES_MAX);
    bool bare = false;
    ssize_t n =
        data ? io_recv_fds_or_bare(collector->helper.sock, data, MSG_BYTES_MAX, fds, &n_fds, &bare) : -ENOMEM;
    if (n <= 0 || bare) {
        return err_errno(reterr, bare ? EMFILE : n == 0 ? EPIPE : (int)-n, "listing output files");
    }
    int r = msg_decode(data, (size_t)n, fds, n_fds, &msg, reterr);
    for (size_t i = 0; r < 0 && i < n_fds; i++) {
        close(fds[i]);
    }
    return r < 0 ? r : take_answer(&msg, ret, reterr);
}

void collector_free(struct collector *collector)
{
    if (collector) {
        helper_stop(&collector->helper);
        free(collector);
    }
}
