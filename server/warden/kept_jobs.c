/* Asynchronous jobs, in memory, for callers that ask later. Runs in the warden, so that they outlive every
 * front: a reload, a crash. A reply is an anonymous file that nobody here reads.
 *
 * A job is kept from its start on; once it has ended, for a time, and as long as all replies together are
 * within their limits. Each key has a share of those, as large as any other's, that no other key can take: a
 * key that has used up its own makes room itself, the one that ended first; for a key that has not, whoever
 * is furthest beyond its share does. A key is its hash: when that is no longer configured, all that is its
 * own is forgotten at once, and ends. To another key than its own a job does not exist. */
#include "server/warden/kept_jobs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"

/* Of the descriptors that the warden may have, replies leave so many times more to jobs. */
#define FD_PART 4

/* What is one key's. */
struct kept_share {
    struct kept_share *next;
    unsigned char owner[SHA256_BYTES];
    size_t references, count, n_ended, reply_bytes;
};

struct kept_jobs {
    const struct server_config *config;
    struct kept_job *first;
    struct kept_share *shares; /* of keys that have any */
    size_t count, reply_bytes, fds_max;
    struct deadlines deadlines;
    struct deadline_queue ended; /* in the order of their ends */
};

static void share_unref(struct kept_jobs *kept, struct kept_share *share)
{
    struct kept_share **at = &kept->shares;
    if (--share->references > 0) {
        return;
    }
    while (*at != share) {
        at = &(*at)->next;
    }
    *at = share->next;
    free(share);
}

static struct kept_share *share_find(const struct kept_jobs *kept, const unsigned char owner[SHA256_BYTES])
{
    struct kept_share *share = kept->shares;
    while (share && !secure_equal(share->owner, owner, SHA256_BYTES)) {
        share = share->next;
    }
    return share;
}

static struct kept_share *share_ref(struct kept_jobs *kept, const unsigned char owner[SHA256_BYTES])
{
    struct kept_share *share = share_find(kept, owner);
    if (!share) {
        share = calloc(1, sizeof *share);
        if (!share) {
            return NULL;
        }
        memcpy(share->owner, owner, SHA256_BYTES);
        share->next = kept->shares;
        kept->shares = share;
    }
    share->references++;
    return share;
}

void kept_job_drop(struct kept_job *job)
{
    if (!job) {
        return;
    }
    struct kept_jobs *kept = job->kept;
    job->share->n_ended -= job->front == NULL;
    deadline_join(&kept->deadlines, &job->deadline, NULL);
    *(job->previous ? &job->previous->next : &kept->first) = job->next;
    if (job->next) {
        job->next->previous = job->previous;
    }
    kept->count--;
    kept->reply_bytes -= job->reply_bytes;
    job->share->reply_bytes -= job->reply_bytes;
    job->share->count--;
    share_unref(kept, job->share);
    fd_closep(&job->reply_fd);
    free(job->reason);
    free(job);
}

static void on_expiry(void *arg, struct deadline *deadline)
{
    (void)arg;
    kept_job_drop(CONTAINER_OF(deadline, struct kept_job, deadline));
}

int kept_jobs_new(struct loop *loop, const struct server_config *config, struct kept_jobs **ret,
                  struct err *reterr)
{
    struct rlimit files = {.rlim_cur = RLIM_INFINITY};
    struct kept_jobs *kept = calloc(1, sizeof *kept);
    if (!kept) {
        return err_errno(reterr, ENOMEM, "making the table of asynchronous jobs");
    }
    getrlimit(RLIMIT_NOFILE, &files);
    kept->fds_max = (size_t)(files.rlim_cur / FD_PART);
    kept->deadlines =
        (struct deadlines){.queues = &kept->ended, .n_queues = 1, .passed = on_expiry, .arg = kept};
    int r = deadlines_start(&kept->deadlines, loop, reterr);
    if (r < 0) {
        free(kept);
        return r;
    }
    kept_jobs_configure(kept, config, NULL);
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

static bool is_configured(const struct server_config *config, const struct kept_share *share)
{
    static const unsigned char nobody[SHA256_BYTES];
    if (config->open) {
        return secure_equal(share->owner, nobody, sizeof nobody);
    }
    for (size_t i = 0; i < config->n_keys; i++) {
        if (secure_equal(share->owner, config->keys[i]->sha256, SHA256_BYTES)) {
            return true;
        }
    }
    return false;
}

void kept_jobs_configure(struct kept_jobs *kept, const struct server_config *config,
                         void (*cancel)(struct front *front, uint64_t number))
{
    kept->config = config;
    kept->ended.timeout_ns = config->kept_job_ttl_ms * NS_PER_MS;
    for (struct kept_job *job = kept->first, *next; job; job = next) {
        next = job->next;
        if (is_configured(config, job->share)) {
            continue;
        }
        if (job->front && cancel) {
            cancel(job->front, job->number);
        }
        kept_job_drop(job);
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
static struct kept_share *find_debtor(const struct kept_jobs *kept, struct kept_share *own,
                                      const struct measure *measure)
{
    size_t n_keys = kept->config->n_keys;
    size_t share = measure->most / (n_keys > 0 ? n_keys : 1);
    if (own->n_ended > 0 && used_by(own, measure) > 0 && used_by(own, measure) + measure->fresh > share) {
        return own;
    }
    struct kept_share *most = NULL;
    for (struct kept_share *each = kept->shares; each; each = each->next) {
        if (each->n_ended > 0 && used_by(each, measure) > share &&
            (!most || used_by(each, measure) > used_by(most, measure))) {
            most = each;
        }
    }
    return most;
}

/* What has ended first of a share's. */
static void drop_oldest(const struct kept_jobs *kept, const struct kept_share *share)
{
    struct deadline *ended = kept->ended.first;
    while (CONTAINER_OF(ended, struct kept_job, deadline)->share != share) {
        ended = ended->next;
    }
    kept_job_drop(CONTAINER_OF(ended, struct kept_job, deadline));
}

/* Drops jobs that have ended until so many more of this share fit. False: they do not. */
static bool make_room(struct kept_jobs *kept, struct kept_share *own, size_t n_jobs, size_t bytes)
{
    const struct server_config *config = kept->config;
    size_t jobs_max = config->max_kept_jobs < kept->fds_max ? config->max_kept_jobs : kept->fds_max;
    for (;;) {
        const struct measure measures[] = {
            {kept->count, jobs_max, n_jobs, offsetof(struct kept_share, count)},
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

int kept_job_new(struct kept_jobs *kept, const unsigned char owner[SHA256_BYTES], const struct kept_row *row,
                 bool in_any_case, struct kept_job **ret, struct err *reterr)
{
    struct kept_share *share = share_ref(kept, owner);
    if (!share) {
        return err_errno(reterr, ENOMEM, "starting a job");
    }
    if (!make_room(kept, share, 1, 0) && !in_any_case) {
        share_unref(kept, share);
        return err_set(reterr, ERR_BUSY, EAGAIN, NULL, "server busy: too many asynchronous jobs run");
    }
    struct kept_job *job = calloc(1, sizeof *job);
    if (!job) {
        share_unref(kept, share);
        return err_errno(reterr, ENOMEM, "starting a job");
    }
    *job = (struct kept_job){.kept = kept, .share = share, .next = kept->first, .row = *row, .reply_fd = -1};
    snprintf(job->row.status, sizeof job->row.status, "running");
    if (job->next) {
        job->next->previous = job;
    }
    kept->first = job;
    kept->count++;
    share->count++;
    *ret = job;
    return 0;
}

/* A reply for which there is no room is not kept; that the job has ended, and how, is. */
void kept_job_end(struct kept_job *job, const char *status, int reply_fd, size_t reply_bytes)
{
    struct kept_jobs *kept = job->kept;
    bool fits = reply_fd >= 0 && reply_bytes <= kept->config->max_kept_bytes &&
                make_room(kept, job->share, 0, reply_bytes);
    if (fits) {
        job->reply_fd = reply_fd;
        job->reply_bytes = reply_bytes;
        kept->reply_bytes += reply_bytes;
        job->share->reply_bytes += reply_bytes;
    } else {
        fd_closep(&reply_fd);
    }
    job->front = NULL;
    snprintf(job->row.status, sizeof job->row.status, "%s", status);
    job->row.ended_ms = clock_wall_ms();
    job->row.expires_ms = job->row.ended_ms + kept->config->kept_job_ttl_ms;
    job->share->n_ended++;
    deadline_join(&kept->deadlines, &job->deadline, &kept->ended);
}

void kept_jobs_lose_front(struct kept_jobs *kept, const struct front *front)
{
    for (struct kept_job *job = kept ? kept->first : NULL; job; job = job->next) {
        if (job->front == front) {
            kept_job_end(job, "lost", -1, 0);
        }
    }
}

struct kept_job *kept_job_of_front(const struct kept_jobs *kept, const struct front *front, uint64_t number)
{
    struct kept_job *job = front ? kept->first : NULL;
    while (job && (job->front != front || job->number != number)) {
        job = job->next;
    }
    return job;
}

struct kept_job *kept_job_named(const struct kept_jobs *kept, const char *job_id)
{
    struct kept_job *job = kept->first;
    while (job && strcmp(job->row.job_id, job_id) != 0) {
        job = job->next;
    }
    return job;
}

struct kept_job *kept_job_find(const struct kept_jobs *kept, const unsigned char owner[SHA256_BYTES],
                               const char *job_id)
{
    struct kept_job *job = kept_job_named(kept, job_id);
    return job && job->share == share_find(kept, owner) ? job : NULL;
}

size_t kept_jobs_list(const struct kept_jobs *kept, const unsigned char owner[SHA256_BYTES],
                      struct kept_row *ret, size_t most)
{
    const struct kept_share *share = share_find(kept, owner);
    size_t n = 0;
    for (const struct kept_job *job = share ? kept->first : NULL; job && n < most; job = job->next) {
        if (job->share == share) {
            ret[n++] = job->row;
        }
    }
    return n;
}
