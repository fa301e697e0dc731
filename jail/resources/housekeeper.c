/* The housekeeper. Both sides: the parent's, which asks and goes on, and the process's, which does one task
 * after the other (jail/resources/tree.h) at the lowest priority. */
#include "jail/resources/housekeeper.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/helper.h"
#include "jail/base/io.h"

/* Jobs' processes must not be able to starve it for ever, nor it them. */
#define PRIORITY 10

struct housekeeper {
    struct helper helper;
};

struct housekeeper_request {
    enum housekeeper_task task;
    struct tree_limits limits;
};

struct housekeeper_answer {
    struct tree_usage usage;
    int32_t error; /* positive errno; 0: done */
};

/* ---- The process ---- */

static int serve_one(int sock)
{
    struct housekeeper_request request;
    struct housekeeper_answer answer;
    int given[1] = {-1};
    size_t n_fds = ARRAY_SIZE(given);
    ssize_t n = io_recv_fds(sock, &request, sizeof request, given, &n_fds);
    if (n != (ssize_t)sizeof request || n_fds != ARRAY_SIZE(given)) {
        return -EPIPE;
    }
    CLEANUP(fd_closep) int dirfd = given[0];
    memset(&answer, 0, sizeof answer);
    int r = request.task == HOUSEKEEPER_MEASURE ? tree_measure(dirfd, &request.limits, &answer.usage)
                                                : tree_clear(dirfd);
    answer.error = -r;
    return io_send_fds(sock, &answer, sizeof answer, NULL, 0);
}

static void housekeeper_main(int sock, void *arg)
{
    (void)arg;
    setpriority(PRIO_PROCESS, 0, PRIORITY);
    while (serve_one(sock) == 0) {
    }
}

/* ---- The parent ---- */

int housekeeper_new(struct housekeeper **ret, struct err *reterr)
{
    struct housekeeper *housekeeper = calloc(1, sizeof *housekeeper);
    int r = housekeeper ? helper_start("immure-tidy", housekeeper_main, NULL, &housekeeper->helper) : -ENOMEM;
    if (r < 0) {
        free(housekeeper);
        return err_errno(reterr, -r, "starting the housekeeper of workspaces");
    }
    *ret = housekeeper;
    return 0;
}

void housekeeper_free(struct housekeeper *housekeeper)
{
    if (housekeeper) {
        helper_stop(&housekeeper->helper);
        free(housekeeper);
    }
}

int housekeeper_fd(const struct housekeeper *housekeeper)
{
    return housekeeper->helper.sock;
}

int housekeeper_begin(struct housekeeper *housekeeper, enum housekeeper_task task, int dirfd,
                      const struct tree_limits *limits)
{
    struct housekeeper_request request;
    memset(&request, 0, sizeof request);
    request.task = task;
    if (limits) {
        request.limits = *limits;
    }
    return io_send_fds(housekeeper->helper.sock, &request, sizeof request, &dirfd, 1) < 0 ? -EPIPE : 0;
}

int housekeeper_end(struct housekeeper *housekeeper, struct tree_usage *ret)
{
    struct housekeeper_answer answer;
    size_t n_fds = 0;
    ssize_t n = io_recv_fds(housekeeper->helper.sock, &answer, sizeof answer, NULL, &n_fds);
    if (n != (ssize_t)sizeof answer || !io_is_bool(&answer.usage.over)) {
        return -EPIPE;
    }
    *ret = answer.usage;
    return -answer.error;
}
