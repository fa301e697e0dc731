/* Asynchronous jobs, in memory, for callers that ask later. Runs in the front.
 *
 * A job is kept from its start on; once it has ended, for a time, and as long as all replies together are
 * within their limits. Each key has a share of those, as large as any other's, that no other key can take: a
 * key that has used up its own makes room itself, the one that ended first; for a key that has not, whoever
 * is furthest beyond its share does. They end with this process: after its end, whatever the reason, nobody
 * finds them any more. To another key than its own a job does not exist. */
#include "server/jobs/kept_jobs.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "server/jobs/front_context.h"
#include "server/jobs/request.h"
#include "server/kit/deadline.h"
#include "server/kit/ident.h"
#include "server/kit/json_out.h"

/* What is one key's. */
struct kept_share {
    size_t count, n_ended, reply_bytes;
};

struct kept_job {
    struct deadline deadline; /* first, so that one is the other; joined when it has ended */
    struct kept_jobs *kept;
    struct kept_job *previous, *next;
    struct running *running; /* NULL: it has ended */
    const struct key_config *key;
    struct kept_share *share; /* of that key */
    char id[IDENT_BYTES], execution_id[IDENT_BYTES];
    const char *status;
    uint64_t created_ms, ended_ms; /* since the epoch */
    struct buf reply;
};

struct kept_jobs {
    struct front *front;
    struct kept_job *first;
    size_t count, reply_bytes;
    struct deadlines deadlines;
    struct deadline_queue ended; /* in the order of their ends */
    size_t n_shares;
    struct kept_share shares[]; /* of each key, and in front of them that of an open server */
};

static uint64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / NS_PER_MS;
}

void kept_job_drop(struct kept_job *job)
{
    if (!job) {
        return;
    }
    struct kept_jobs *kept = job->kept;
    job->share->n_ended -= job->deadline.queue != NULL;
    deadline_join(&kept->deadlines, &job->deadline, NULL);
    *(job->previous ? &job->previous->next : &kept->first) = job->next;
    if (job->next) {
        job->next->previous = job->previous;
    }
    kept->count--;
    kept->reply_bytes -= job->reply.len;
    job->share->count--;
    job->share->reply_bytes -= job->reply.len;
    buf_free(&job->reply);
    free(job);
}

static void on_expiry(void *arg, struct deadline *deadline)
{
    (void)arg;
    struct kept_job *job = (struct kept_job *)(void *)deadline;
    job->share->n_ended--; /* it has left the queue already */
    kept_job_drop(job);
}

int kept_jobs_new(struct front *front, struct kept_jobs **ret, struct err *reterr)
{
    size_t n_shares = front->config->n_keys + 1;
    struct kept_jobs *kept = calloc(1, sizeof *kept + n_shares * sizeof kept->shares[0]);
    if (!kept) {
        return err_errno(reterr, ENOMEM, "making the table of asynchronous jobs");
    }
    kept->n_shares = n_shares;
    kept->front = front;
    kept->ended.timeout_ns = front->config->kept_job_ttl_ms * NS_PER_MS;
    kept->deadlines =
        (struct deadlines){.queues = &kept->ended, .n_queues = 1, .passed = on_expiry, .arg = kept};
    int r = deadlines_start(&kept->deadlines, front->loop, reterr);
    if (r < 0) {
        free(kept);
        return r;
    }
    *ret = kept;
    return 0;
}

void kept_jobs_free(struct kept_jobs *kept)
{
    while (kept && kept->first) {
        kept_job_drop(kept->first);
    }
    if (kept) {
        deadlines_stop(&kept->deadlines);
        free(kept);
    }
}

/* One of two limits: of jobs, or of bytes. */
struct measure {
    size_t used, most, fresh; /* of all; what one more needs */
    size_t offset;            /* of the same in struct kept_share */
};

static size_t used_by(const struct kept_share *share, const struct measure *measure)
{
    return *(const size_t *)(const void *)((const char *)share + measure->offset);
}

/* Who has to make room for one more of `own`: itself where it has used up its share, else the one that is
 * furthest beyond its own. NULL: nobody who could. */
static struct kept_share *find_debtor(struct kept_jobs *kept, struct kept_share *own,
                                      const struct measure *measure)
{
    size_t n_keys = kept->front->config->n_keys;
    size_t share = measure->most / (n_keys > 0 ? n_keys : 1);
    if (own->n_ended > 0 && used_by(own, measure) > 0 && used_by(own, measure) + measure->fresh > share) {
        return own;
    }
    struct kept_share *most = NULL;
    for (size_t i = 0; i < kept->n_shares; i++) {
        struct kept_share *each = &kept->shares[i];
        if (each->n_ended > 0 && used_by(each, measure) > share &&
            (!most || used_by(each, measure) > used_by(most, measure))) {
            most = each;
        }
    }
    return most;
}

/* What has ended first of a share's. */
static void drop_oldest(struct kept_jobs *kept, const struct kept_share *share)
{
    struct deadline *ended = kept->ended.first;
    while (((struct kept_job *)(void *)ended)->share != share) {
        ended = ended->next;
    }
    kept_job_drop((struct kept_job *)(void *)ended);
}

/* Drops jobs that have ended until so many more of this share fit. False: they do not. */
static bool make_room(struct kept_jobs *kept, struct kept_share *own, size_t n_jobs, size_t bytes)
{
    const struct server_config *config = kept->front->config;
    for (;;) {
        const struct measure measures[] = {
            {kept->count, config->max_kept_jobs, n_jobs, offsetof(struct kept_share, count)},
            {kept->reply_bytes, config->max_kept_bytes, bytes, offsetof(struct kept_share, reply_bytes)},
        };
        bool over_jobs = measures[0].used + n_jobs > measures[0].most;
        bool over_bytes = measures[1].used + bytes > measures[1].most;
        if (!over_jobs && !over_bytes) {
            return true;
        }
        struct kept_share *debtor = find_debtor(kept, own, &measures[over_jobs ? 0 : 1]);
        if (!debtor) {
            return false;
        }
        drop_oldest(kept, debtor);
    }
}

static struct kept_share *share_of(struct kept_jobs *kept, const struct caller *caller)
{
    return &kept->shares[caller->key ? caller->key - kept->front->config->keys + 1 : 0];
}

static struct kept_job *job_new(struct kept_jobs *kept, struct running *running, const struct caller *caller,
                                const char *execution_id)
{
    struct kept_job *job = calloc(1, sizeof *job);
    if (!job) {
        return NULL;
    }
    *job = (struct kept_job){.kept = kept,
                             .share = share_of(kept, caller),
                             .next = kept->first,
                             .running = running,
                             .key = caller->key,
                             .status = "running",
                             .created_ms = now_ms()};
    ident_fresh(job->id);
    snprintf(job->execution_id, sizeof job->execution_id, "%s", execution_id);
    if (job->next) {
        job->next->previous = job;
    }
    kept->first = job;
    kept->count++;
    job->share->count++;
    return job;
}

int kept_job_new(struct kept_jobs *kept, struct running *running, const struct caller *caller,
                 const char *execution_id, struct kept_job **ret, struct err *reterr)
{
    if (!make_room(kept, share_of(kept, caller), 1, 0)) {
        return err_set(reterr, ERR_BUSY, EAGAIN, NULL, "server busy: too many asynchronous jobs run");
    }
    *ret = job_new(kept, running, caller, execution_id);
    return *ret ? 0 : err_errno(reterr, ENOMEM, "starting a job");
}

int kept_job_new_approved(struct kept_jobs *kept, struct running *running, const struct caller *caller,
                          const char *execution_id, const char *approval_id, struct kept_job **ret,
                          struct err *reterr)
{
    make_room(kept, share_of(kept, caller), 1, 0);
    *ret = job_new(kept, running, caller, execution_id);
    if (!*ret) {
        return err_errno(reterr, ENOMEM, "starting a job");
    }
    snprintf((*ret)->id, sizeof(*ret)->id, "%s", approval_id);
    return 0;
}

/* A reply for which there is no room is not kept; that the job has ended, and how, is. */
void kept_job_end(struct kept_job *job, const char *status, struct buf *reply)
{
    struct kept_jobs *kept = job->kept;
    job->running = NULL;
    job->status = status;
    job->ended_ms = now_ms();
    bool fits = !reply->failed && reply->len <= kept->front->config->max_kept_bytes;
    if (!fits || !make_room(kept, job->share, 0, reply->len)) {
        buf_free(reply);
        *reply = BUF_INIT;
    }
    job->reply = *reply;
    *reply = BUF_INIT;
    kept->reply_bytes += job->reply.len;
    job->share->reply_bytes += job->reply.len;
    job->share->n_ended++;
    deadline_join(&kept->deadlines, &job->deadline, &kept->ended);
}

void kept_job_write(const struct kept_job *job, struct buf *ret)
{
    buf_putc(ret, '{');
    json_out_text(ret, "job_id", job->id);
    json_out_text(ret, "execution_id", job->execution_id);
    json_out_text(ret, "status", job->status);
    json_out_time(ret, "created_at", job->created_ms);
    json_out_time(ret, "ended_at", job->ended_ms);
    json_out_time(ret, "expires_at",
                  job->ended_ms ? job->ended_ms + job->kept->ended.timeout_ns / NS_PER_MS : 0);
    if (job->reply.len > 0) {
        json_out_key(ret, "reply");
        size_t end_of_line = job->reply.data[job->reply.len - 1] == '\n';
        buf_append(ret, job->reply.data, job->reply.len - end_of_line);
    } else {
        json_out_null(ret, "reply");
    }
    buf_puts(ret, "}\n");
}

void kept_job_reply_accepted(const struct kept_job *job, struct request *request)
{
    struct buf body = BUF_INIT;
    char location[IDENT_BYTES + 8];
    snprintf(location, sizeof location, "/jobs/%s", job->id);
    kept_job_write(job, &body);
    request_reply_accepted(request, location, &body);
}

struct kept_job *kept_job_find(struct kept_jobs *kept, const struct caller *caller, const char *id)
{
    struct kept_job *job = kept->first;
    while (job && (strcmp(job->id, id) != 0 || job->key != caller->key)) {
        job = job->next;
    }
    return job;
}

struct running *kept_job_running(const struct kept_job *job)
{
    return job->running;
}
