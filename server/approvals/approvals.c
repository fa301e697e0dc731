/* Jobs that wait for approval. Runs in the warden.
 *
 * What must hold: a job runs only after it was approved, and at most once, also when the server or the
 * machine dies at any moment. Therefore each step is made durable before anything follows from it: a job is
 * RUNNING on disk before its jail is begun, and whoever finds it so at a start does not know whether it was,
 * and calls it LOST. */
#include "server/approvals/approvals.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/digest.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/loop.h"
#include "server/approvals/disk.h"
#include "server/kit/ident.h"
#include "server/kit/log.h"

/* The wall clock may be set: nothing is waited for longer than this without a look at it. Nor is an expiry
 * that could not be written tried again any sooner. */
#define LOOK_MS 10000u
/* Somebody may wait for a job's end. */
#define END_RETRY_MS 1000u

struct grant {
    struct grant *next;
    char hash[SHA256_HEX];
};

struct approvals {
    struct approvals_options options;
    const struct server_config *config;
    struct approval_disk *disk; /* NULL: in memory */
    struct approval_entry *first;
    struct grant *grants;
    struct approvals_count count;
    uint64_t bytes; /* of all jobs that are kept */
    struct loop_source *timer;
    uint64_t not_before_ns; /* when time may move one on again, after that could not be written */
};

/* Its job may still run. */
static bool is_open(const struct approval *approval)
{
    return approval->state == APPROVAL_PENDING || approval->state == APPROVAL_APPROVED;
}

/* ---- The table ---- */

static void forget_job(struct approval_entry *entry)
{
    free(entry->packed);
    entry->packed = NULL;
    if (entry->all->disk) {
        approval_disk_remove_job(entry->all->disk, entry->approval.id);
    }
}

static void remove_entry(struct approval_entry *entry)
{
    struct approval_entry **at = &entry->all->first;
    while (*at != entry) {
        at = &(*at)->next;
    }
    *at = entry->next;
    free(entry->packed);
    free(entry->session_id);
    free(entry);
}

/* In the order in which they came. */
static struct approval_entry *insert(struct approvals *approvals, const struct approval *approval)
{
    struct approval_entry *entry = calloc(1, sizeof *entry);
    if (!entry) {
        return NULL;
    }
    struct approval_entry **at = &approvals->first;
    while (*at && (*at)->approval.created_ms <= approval->created_ms) {
        at = &(*at)->next;
    }
    *entry = (struct approval_entry){.all = approvals, .next = *at, .approval = *approval};
    *at = entry;
    approvals->count.pending += approval->state == APPROVAL_PENDING;
    approvals->bytes += is_open(approval) ? approval->submission_bytes : 0;
    return entry;
}

struct approvals_count approvals_count(const struct approvals *approvals)
{
    return approvals->count;
}

bool approvals_outlive_us(const struct approvals *approvals)
{
    return approvals->disk != NULL;
}

struct approval_entry *approvals_first(const struct approvals *approvals)
{
    return approvals ? approvals->first : NULL;
}

struct approval_entry *approvals_find(const struct approvals *approvals, const char *id)
{
    struct approval_entry *entry = approvals->first;
    while (entry && strcmp(entry->approval.id, id) != 0) {
        entry = entry->next;
    }
    return entry;
}

/* ---- Time ---- */

/* When something is due with this one; UINT64_MAX: never. */
static uint64_t due_ms(const struct approval_entry *entry)
{
    const struct approval *approval = &entry->approval;
    if (entry->end_is_due) {
        return 0;
    }
    if (approval->state == APPROVAL_PENDING) {
        return approval->expires_ms;
    }
    return approval->ended_ms > 0 ? approval->ended_ms + entry->all->config->kept_job_ttl_ms : UINT64_MAX;
}

static void set_timer(struct approvals *approvals)
{
    uint64_t soonest = UINT64_MAX, now = clock_wall_ms();
    for (const struct approval_entry *entry = approvals->first; entry; entry = entry->next) {
        uint64_t due = due_ms(entry);
        soonest = due < soonest ? due : soonest;
    }
    uint64_t wait = soonest <= now ? 1 : soonest - now < LOOK_MS ? soonest - now : LOOK_MS;
    uint64_t at_ns = clock_now_ns() + wait * NS_PER_MS;
    at_ns = at_ns > approvals->not_before_ns ? at_ns : approvals->not_before_ns;
    loop_timer_set(approvals->timer, soonest == UINT64_MAX ? 0 : at_ns);
}

static void put_off(struct approvals *approvals, uint32_t ms)
{
    approvals->not_before_ns = clock_now_ns() + ms * NS_PER_MS;
}

static void expire(struct approval_entry *entry)
{
    struct err err = {0};
    if (approvals_move(entry, APPROVAL_EXPIRED, NULL, NULL, &err) < 0) {
        put_off(entry->all, LOOK_MS);
        log_err(*entry->all->options.log, LOG_ERROR, "approval_not_expired", &err);
    }
}

static void look(struct approvals *approvals)
{
    uint64_t now = clock_wall_ms(), now_ns = clock_now_ns();
    for (struct approval_entry *entry = approvals->first, *next; entry; entry = next) {
        next = entry->next;
        if (due_ms(entry) > now) {
            continue;
        }
        bool may_move = now_ns >= approvals->not_before_ns;
        if (entry->end_is_due && may_move) {
            approvals_end(entry, entry->end, entry->outcome, NULL);
        } else if (entry->approval.state == APPROVAL_PENDING && may_move) {
            expire(entry);
        } else if (entry->approval.ended_ms > 0) {
            if (approvals->disk) {
                approval_disk_remove(approvals->disk, entry->approval.id);
            }
            remove_entry(entry);
        }
    }
    set_timer(approvals);
}

static void on_timer(void *arg, uint32_t events)
{
    (void)events;
    look(arg);
}

/* ---- One ---- */

static int check_limits(const struct approvals *approvals, const struct approval *approval, size_t bytes,
                        struct err *reterr)
{
    const struct server_config *config = approvals->config;
    uint32_t of_key = 0;
    for (const struct approval_entry *entry = approvals->first; entry; entry = entry->next) {
        of_key += entry->approval.state == APPROVAL_PENDING &&
                  memcmp(entry->approval.owner, approval->owner, sizeof approval->owner) == 0;
    }
    if (bytes > config->max_approval_job_bytes) {
        return err_set(reterr, ERR_TOO_LARGE, EFBIG, NULL,
                       "a job that waits for approval may have %" PRIu64
                       " bytes, its files and stdin included",
                       config->max_approval_job_bytes);
    }
    if (of_key >= config->max_approvals_per_key) {
        return err_set(reterr, ERR_RATE, EDQUOT, NULL, "%" PRIu32 " jobs of key '%.64s' wait for approval",
                       of_key, approval->key);
    }
    return approvals->count.pending >= config->max_approvals ||
                   approvals->bytes + bytes > config->max_approval_bytes
               ? err_set(reterr, ERR_BUSY, EAGAIN, NULL, "server busy: too many jobs wait for approval")
               : 0;
}

static int keep(struct approvals *approvals, struct approval_entry *entry, const struct buf *packed,
                struct err *reterr)
{
    if (!approvals->disk) {
        entry->packed = malloc(packed->len + 1);
        if (!entry->packed) {
            return err_errno(reterr, ENOMEM, "keeping a job that waits for approval");
        }
        memcpy(entry->packed, packed->data, packed->len);
        return 0;
    }
    int r = approval_disk_write_job(approvals->disk, entry->approval.id, packed, reterr);
    r = r < 0 ? r : approval_disk_write(approvals->disk, &entry->approval, reterr);
    if (r < 0) {
        approval_disk_remove(approvals->disk, entry->approval.id);
    }
    return r;
}

int approvals_add(struct approvals *approvals, const struct approval *approval, const struct buf *packed,
                  struct approval_entry **ret, struct err *reterr)
{
    struct approval made = *approval;
    char id[IDENT_BYTES];
    look(approvals); /* what has expired takes no room */
    int r = check_limits(approvals, approval, packed->len, reterr);
    if (r < 0) {
        return r;
    }
    ident_fresh(id);
    snprintf(made.id, sizeof made.id, "%.36s", id);
    made.state = APPROVAL_PENDING;
    made.submission_bytes = packed->len;
    sha256_hex_of(packed->data, packed->len, made.submission_sha256);
    made.created_ms = clock_wall_ms();
    made.expires_ms = made.created_ms + approvals->config->approval_expiry_ms;
    struct approval_entry *entry = insert(approvals, &made);
    if (!entry) {
        return err_errno(reterr, ENOMEM, "keeping a job that waits for approval");
    }
    r = keep(approvals, entry, packed, reterr);
    if (r < 0) {
        approvals->count.pending--;
        approvals->bytes -= made.submission_bytes;
        remove_entry(entry);
        return r;
    }
    set_timer(approvals);
    approvals->options.changed(approvals->options.arg, &entry->approval);
    *ret = entry;
    return 0;
}

static void count(struct approvals *approvals, enum approval_state from, enum approval_state to)
{
    struct approvals_count *all = &approvals->count;
    all->pending -= from == APPROVAL_PENDING;
    all->approved += to == APPROVAL_APPROVED;
    all->rejected += to == APPROVAL_REJECTED;
    all->expired += to == APPROVAL_EXPIRED;
    all->lost += to == APPROVAL_LOST;
}

/* The approval as it is after that step. */
static struct approval after(const struct approval *approval, enum approval_state state, const char *by,
                             const char *text)
{
    struct approval next = *approval;
    bool decides = approval->state == APPROVAL_PENDING;
    next.state = state;
    if (decides) {
        next.decided_ms = clock_wall_ms();
        snprintf(next.decided_by, sizeof next.decided_by, "%s", by ? by : "");
    }
    if (state != APPROVAL_APPROVED && state != APPROVAL_RUNNING) {
        next.ended_ms = clock_wall_ms();
    }
    if (decides) {
        snprintf(next.reason, sizeof next.reason, "%s", text ? text : "");
    } else {
        snprintf(next.outcome, sizeof next.outcome, "%s", text ? text : "");
    }
    return next;
}

int approvals_move(struct approval_entry *entry, enum approval_state state, const char *by, const char *text,
                   struct err *reterr)
{
    struct approvals *approvals = entry->all;
    enum approval_state from = entry->approval.state;
    if (!approval_may_become(from, state)) {
        return err_set(reterr, ERR_CONFLICT, EALREADY, NULL, "the job is %s", approval_state_to_string(from));
    }
    /* Who decides looks at the wall clock, as the caller does; the timer may be late. */
    if (state == APPROVAL_APPROVED && clock_wall_ms() >= entry->approval.expires_ms) {
        return err_set(reterr, ERR_CONFLICT, ETIMEDOUT, NULL, "the job is expired");
    }
    struct approval next = after(&entry->approval, state, by, text);
    int r = approvals->disk ? approval_disk_rewrite(approvals->disk, &entry->approval, &next, reterr) : 0;
    if (r < 0) {
        return r;
    }
    bool was_open = is_open(&entry->approval);
    entry->approval = next;
    count(approvals, from, state);
    if (was_open && !is_open(&next)) {
        approvals->bytes -= next.submission_bytes;
        forget_job(entry);
    }
    set_timer(approvals);
    approvals->options.changed(approvals->options.arg, &entry->approval);
    return 0;
}

int approvals_end(struct approval_entry *entry, enum approval_state state, const char *outcome,
                  struct err *reterr)
{
    int r = approvals_move(entry, state, NULL, outcome, reterr);
    bool again = r < 0 && approval_may_become(entry->approval.state, state);
    if (again && !entry->end_is_due) {
        snprintf(entry->outcome, sizeof entry->outcome, "%s", outcome ? outcome : "");
        entry->end = state;
    }
    entry->end_is_due = again;
    if (again) {
        put_off(entry->all, END_RETRY_MS);
        set_timer(entry->all);
    }
    return r;
}

int approvals_read_job(const struct approval_entry *entry, struct buf *ret, struct err *reterr)
{
    const struct approval *approval = &entry->approval;
    char sha256[SHA256_HEX];
    size_t before = ret->len;
    if (!is_open(approval)) {
        return err_set(reterr, ERR_CONFLICT, EALREADY, NULL, "the job is %s and not kept any more",
                       approval_state_to_string(approval->state));
    }
    int r = 0;
    if (entry->packed) {
        r = buf_append(ret, entry->packed, (size_t)approval->submission_bytes);
        r = r < 0 ? err_errno(reterr, -r, "reading a job that waits for approval") : 0;
    } else {
        r = approval_disk_read_job(entry->all->disk, approval->id, ret, reterr);
    }
    if (r < 0) {
        return r;
    }
    sha256_hex_of(ret->data + before, ret->len - before, sha256);
    if (ret->len - before != approval->submission_bytes || strcmp(sha256, approval->submission_sha256) != 0) {
        return err_set(reterr, ERR_INTERNAL, EBADMSG, NULL, "the job that waits for approval is another one");
    }
    return 0;
}

/* ---- First uses ---- */

/* Of one policy, as it is, and of a team or a key. Each text ends with a NUL that none of them holds. */
static void grant_hash(const struct approval *approval, char ret[SHA256_HEX])
{
    char text[3 * APPROVAL_NAME_BYTES + 2 * SHA256_HEX], owner[SHA256_HEX];
    sha256_to_hex(approval->owner, owner);
    bool team = approval->team[0] != '\0';
    int length = snprintf(text, sizeof text, "%s%c%s%c%s%c%s", approval->policy, 0, approval->policy_sha256,
                          0, team ? "team" : "key", 0, team ? approval->team : owner);
    sha256_hex_of(text, (size_t)length, ret);
}

static int remember(struct approvals *approvals, const char hash[SHA256_HEX], struct err *reterr)
{
    struct grant *grant = calloc(1, sizeof *grant);
    if (!grant) {
        return err_errno(reterr, ENOMEM, "noting a first approval");
    }
    memcpy(grant->hash, hash, SHA256_HEX);
    grant->next = approvals->grants;
    approvals->grants = grant;
    return 0;
}

bool approvals_is_granted(const struct approvals *approvals, const struct approval *approval)
{
    char hash[SHA256_HEX];
    grant_hash(approval, hash);
    const struct grant *grant = approvals->grants;
    while (grant && strcmp(grant->hash, hash) != 0) {
        grant = grant->next;
    }
    return grant != NULL;
}

int approvals_grant(struct approvals *approvals, const struct approval *approval, struct err *reterr)
{
    char hash[SHA256_HEX], text[8 * APPROVAL_NAME_BYTES];
    if (approvals_is_granted(approvals, approval)) {
        return 0;
    }
    grant_hash(approval, hash);
    snprintf(text, sizeof text, "policy: %s\npolicy_sha256: %s\n%s: %s\napproved_by: %s\napproval_id: %s\n",
             approval->policy, approval->policy_sha256, approval->team[0] ? "team" : "key",
             approval->team[0] ? approval->team : approval->key, approval->decided_by, approval->id);
    int r = approvals->disk ? approval_disk_write_grant(approvals->disk, hash, text, reterr) : 0;
    return r < 0 ? r : remember(approvals, hash, reterr);
}

/* ---- All of them ---- */

static int on_found(void *arg, const struct approval *approval, struct err *reterr)
{
    return insert(arg, approval) ? 0 : err_errno(reterr, ENOMEM, "reading the directory of approvals");
}

static int on_granted(void *arg, const char hash[SHA256_HEX], struct err *reterr)
{
    return remember(arg, hash, reterr);
}

static void on_broken(void *arg, const struct err *err)
{
    const struct approvals *approvals = arg;
    log_err(*approvals->options.log, LOG_ERROR, "approval_broken", err);
}

int approvals_new(const struct approvals_options *options, const struct server_config *config,
                  struct approvals **ret, struct err *reterr)
{
    struct approvals *approvals = calloc(1, sizeof *approvals);
    if (!approvals) {
        return err_errno(reterr, ENOMEM, "making the table of approvals");
    }
    const struct approval_visitor visitor = {
        .found = on_found, .granted = on_granted, .broken = on_broken, .arg = approvals};
    approvals->options = *options;
    approvals->config = config;
    int r = loop_add_timer(options->loop, on_timer, approvals, &approvals->timer, reterr);
    if (r == 0 && options->directory[0] != '\0') {
        r = approval_disk_open(options->directory, &approvals->disk, reterr);
        r = r < 0 ? r : approval_disk_visit(approvals->disk, &visitor, reterr);
    }
    if (r < 0) {
        approvals_free(approvals);
        return r;
    }
    *ret = approvals;
    return 0;
}

void approvals_free(struct approvals *approvals)
{
    if (!approvals) {
        return;
    }
    while (approvals->first) {
        remove_entry(approvals->first);
    }
    while (approvals->grants) {
        struct grant *grant = approvals->grants;
        approvals->grants = grant->next;
        free(grant);
    }
    loop_remove(approvals->timer);
    approval_disk_close(approvals->disk);
    free(approvals);
}

void approvals_resume(struct approvals *approvals)
{
    for (struct approval_entry *entry = approvals->first; entry; entry = entry->next) {
        struct err err = {0};
        if (entry->approval.state == APPROVAL_RUNNING &&
            approvals_end(entry, APPROVAL_LOST, "the server ended while it ran", &err) < 0) {
            log_err(*approvals->options.log, LOG_ERROR, "approval_not_lost", &err);
        }
        if (!is_open(&entry->approval)) {
            forget_job(entry); /* which a server that died between two steps has left */
        }
    }
    look(approvals);
}

void approvals_configure(struct approvals *approvals, const struct server_config *config)
{
    approvals->config = config;
    set_timer(approvals);
}
