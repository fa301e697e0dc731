/* What the files of the warden share: the one context, its fronts and its jobs. Each calls only those below
 * it; what they have to say upwards goes through hooks (`hear`, `done`, `changed`).
 *
 *     warden.c          start, signals, drain, end
 *     receive.c         what fronts say, to whom it concerns
 *     reload.c          SIGHUP
 *     keys.c            the file of keys
 *     fronts.c          a front's life: start, death, back-off
 *     selftest.c        one trivial job per runtime, for /readyz
 *     session_answers.c queries about sessions
 *     jobs.c            a job's life: message in, jail, message out
 *     job_refusals.c    jobs that do not begin
 *     admission.c       what a key may run at once, over all fronts
 *     guard.c           fronts that hang, fronts that try what is denied
 *     approvals.c       jobs that wait for approval
 *     turns.c           approved jobs on their way to their jails
 *     floor.c           what is left of the host's memory
 *     audit.c           audit lines, from the fronts to the file
 *     state.c           what fronts are told, and how they are killed */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "config/message/message.h"
#include "jail/base/err.h"
#include "server/host/floor.h"
#include "server/host/host.h"
#include "server/host/listen.h"
#include "server/kit/backoff.h"
#include "server/warden/front_process.h"

struct approval;
struct approvals;
struct audit_trail;
struct policy;
struct runtime_config;
struct channel;
struct execution;
struct job_result;
struct key_config;
struct kept_jobs;
struct kernels;
struct log;
struct loop;
struct loop_source;
struct session;
struct sessions;
struct settings;
struct warden;
struct warm;

enum front_state {
    FRONT_STARTING, /* has its configuration, has not said hello */
    FRONT_SERVING,  /* accepts requests */
    FRONT_DRAINING, /* answers what it has, then exits */
    FRONT_DYING,    /* killed; its process has not been reaped */
    FRONT_STATE_COUNT,
};

/* What guard.c knows of a front. */
struct front_guard {
    uint64_t ping;  /* the number of the last one */
    unsigned ticks; /* since it was sent; before the first, since the front was started */
    bool speaks;    /* has said hello */
    bool answered;  /* the last ping */
    bool alive;     /* it has answered one since the service manager's last sign of life */
    int denials;    /* where its denied calls wait; -1: nowhere */
    unsigned n_denials;
    struct loop_source *denials_source;
};

struct front {
    struct warden *warden;
    struct front *next; /* in warden->fronts */
    enum front_state state;
    struct front_process process;
    struct channel *channel; /* NULL once it is closed */
    struct loop_source *channel_source, *pidfd_source;
    struct settings *settings; /* what this front and the jobs it sends go by */
    uint64_t started_ns;
    uint64_t last_job_id; /* ids only ever rise, so that none can be used twice */
    struct front_guard guard;
    int audit_fd; /* where its audit lines come from; -1: nowhere */
    struct loop_source *audit_source;
};

/* One job in the warden. */
struct warden_job {
    struct warden *warden;
    struct warden_job *next; /* in warden->jobs or warden->dying */
    struct front *front;     /* who hears the verdict; NULL: nobody any more */
    bool is_selftest;
    bool ended_for_memory; /* it is on its way out */
    bool awaits_input;     /* a process writes its input */
    bool is_reported;      /* the verdict is out; waits in warden->dying for its jail to be gone */
    uint64_t id;
    struct session *session;             /* NULL: it has a workspace of its own */
    bool session_is_new;                 /* it was made for this job */
    bool has_left;                       /* its session */
    bool has_proxy;                      /* its front has the socket on which its program finds one */
    bool announced;                      /* its front has been told that the program runs */
    int image_fd;                        /* holds the image that it runs in; -1: none */
    char approval_id[APPROVAL_ID_BYTES]; /* "": it needed no approval */
    struct execution *execution;
    struct loop_source *source,
        *files_source; /* its jail; what writes its input or lists its output files, if it does */
    /* Of a self-test. NULL: its verdict could not be read. */
    void (*done)(struct warden *warden, const struct job_result *result);
};

struct selftest {
    struct settings *settings; /* whose runtimes are tested; NULL: none runs */
    size_t runtime;            /* the one being tested */
    struct warden_job *job;
    int said;                                    /* what its program writes to stderr; -1: none runs */
    int printed;                                 /* and to stdout; -1: that does not matter, or none runs */
    char why[1024];                              /* what has failed until now */
    bool failed;                                 /* and is needed */
    struct msg_failing failing[MSG_FAILING_MAX]; /* those that are not */
    size_t n_failing;
    unsigned failures;     /* in a row */
    bool doubted;          /* the last one was a success, and is still what /readyz says */
    uint64_t concluded_ns; /* the last one's end */
};

/* What keys.c knows of the file of keys. */
struct keys_watch {
    char *path; /* NULL: there is none */
    int fd;
    struct stat seen; /* the file; zeros: none */
    struct loop_source *source, *timer;
    void (*changed)(struct warden *warden);
};

struct warden {
    const struct warden_options *options;
    struct log *log;
    struct loop *loop;
    struct host host;
    struct settings *settings; /* what new fronts go by */
    int environment_fd, listen_fd, signal_fd;
    int front_fd; /* O_PATH, the front's program */
    char bound[LISTEN_TEXT_BYTES];
    struct loop_source *signal_source, *restart_timer, *watch_timer, *drain_timer, *guard_timer;
    struct loop_source *selftest_timer, *floor_timer, *audit_timer, *watchdog_timer;

    struct front *fronts;
    void (*hear)(struct front *front, int most); /* front_receive() */
    struct front *current;                       /* the one that serves, or starts to */
    struct front *successor;                     /* after a reload: takes over when it says hello */
    struct backoff backoff;
    bool has_served;     /* one of them */
    struct err hopeless; /* why this server gives up */

    struct warden_job *jobs;
    unsigned n_templates; /* of this and earlier settings, as long as their process lives */
    unsigned n_jobs;      /* of fronts; the self-test's do not count */
    /* Answered, but PID 1 of their jails is still being taken apart by the kernel. Latest first. */
    struct warden_job *dying;
    unsigned n_dying;
    struct warm *warm; /* warm starts of `settings`; NULL: none */
    struct sessions *sessions;
    struct kernels *kernels;
    struct approvals *approvals;
    struct kept_jobs *kept;
    struct relay_pending *relays; /* between fronts */
    uint64_t last_relay_id;
    struct selftest selftest;
    struct audit_trail *audit;      /* NULL: audit lines go to the log */
    struct audit_trail *next_audit; /* of a reload that has not succeeded yet; NULL: the same */
    struct keys_watch keys;
    char *audit_line; /* room for one that is received */

    struct msg_state state; /* what every front is told */
    bool ready_notified, guard_armed;
    bool reload_notified;  /* to the service manager: that one has begun */
    uint64_t watchdog_ns;  /* how long that waits for a sign of life; 0: it does not ask for any */
    uint64_t watch_due_ns; /* of watch_timer; 0: it is not set */
    bool listener_stays;   /* a service manager has it, too, for the next server */
    bool draining;
    bool begins_nothing; /* of what its fronts still have; see MSG_STATE */
    struct floor floor;
    bool floor_armed;                         /* floor_timer is set */
    uint64_t floor_looked_ns, floor_mercy_ns; /* the last look; nothing is ended before */
};

/* receive.c */

/* Handles what the front has said until now, `most` messages of it. */
void front_receive(struct front *front, int most);

/* reload.c */

void warden_reload(struct warden *warden);
/* The same because the file of keys has changed: where nothing has, nothing begins again. */
void warden_reload_keys(struct warden *warden);
/* The successor has said hello. */
void warden_reload_succeeded(struct warden *warden);
/* Starts the templates of the settings in force. */
void warden_start_warm(struct warden *warden);

/* keys.c */

/* Watches the file that the settings name, and tells `changed` when it is another one. */
void warden_keys_watch(struct warden *warden, void (*changed)(struct warden *warden));
void warden_keys_stop(struct warden *warden);

/* fronts.c */

int front_start(struct warden *warden, struct settings *settings, struct front **ret, struct err *reterr);
/* The same for a process that runs already. Takes it, on failure too. */
int front_adopt(struct warden *warden, struct settings *settings, struct front_process *process,
                struct front **ret, struct err *reterr);
/* Starts the current front; on failure, and after deaths in quick succession, later. */
void front_start_current(struct warden *warden);
void front_restart_due(void *arg, uint32_t events);
/* Tells it the keys and teams of its settings, which are others now. */
void front_send_callers(struct front *front);
/* No more requests; it exits when the last is answered. */
void front_drain(struct front *front);
/* There is none, or no longer one: the settings that it was to bring are refused. */
void front_drop_successor(struct warden *warden, const struct err *why);
/* Frees it without ceremony, at the warden's end. */
void front_discard(struct front *front);

/* selftest.c */

void selftest_start(struct warden *warden);
/* It failed a while ago, or a jail has failed since: once more. */
void selftest_due(void *arg, uint32_t events);
void selftest_stop(struct warden *warden);

/* session_answers.c */

/* Handles MSG_SESSION_QUERY, and the descriptor that came with it, or -1. */
void session_query_answer(struct front *front, const struct msg_session_query *query, int content);

/* relays.c */

/* To the front whose job is meant; `fd` (-1: none) stays the caller's. */
void relay_pass(struct front *front, const struct msg_relay *relay, int fd);
void relay_pass_answer(struct front *front, const struct msg_relay_answer *told, int fd);
/* The descriptor beside a question or an answer is lost. */
void relay_refuse(struct front *front, const struct msg *msg);
/* Nobody waits for an answer to it, nor from it, any more. */
void relays_lose_front(struct front *front);
/* The sessions' hook `answered`; `asker` is a front. */
void session_answer_send(void *arg, void *asker, const struct msg_session_answer *answer, int fd);

/* job_refusals.c */

/* Each tells the front that its job does not begin. `retry_after_ms` 0: when the first of the running jobs
 * has to end. */
void job_refuse(struct front *front, uint64_t id, const struct err *err, uint64_t retry_after_ms);
/* There is no slot for it. */
void job_refuse_slot(struct front *front, uint64_t id, const struct err *err, uint64_t retry_after_ms);
/* The same where its jail could not be started: that is a verdict, and makes us doubt. */
void job_report_failure(struct front *front, uint64_t id, const struct err *err, uint64_t retry_after_ms);

/* kept_answers.c */

/* A job is about to run whose result may be to be kept. */
int kept_begin(struct front *front, const struct job *asked, struct err *reterr);
/* The same for one that has been approved, if this front has been told to run it. */
void kept_begin_approved(struct front *front, uint64_t id, const char *approval_id);
/* It has not begun, or nobody has heard of it. */
void kept_forget(const struct front *front, uint64_t id);
/* Its verdict has come, and goes to the front next: `r` < 0: it is lost. */
void kept_take_verdict(const struct warden_job *job, int r, struct job_result *result);
/* Handles MSG_KEEP; `fd` is -1 or to be taken. */
void kept_end(struct front *front, const struct msg_keep *keep, int fd);
/* Handles MSG_KEPT_QUERY. */
void kept_query_answer(struct front *front, const struct msg_kept_query *query);

/* jobs.c */

/* Handles MSG_JOB: takes the job and the descriptors. */
void job_accept(struct front *front, struct job *job, int fds[MSG_JOB_FDS]);
/* Handles MSG_RUN. */
void job_run(struct front *front, uint64_t id, const char *approval_id, const int fds[MSG_RUN_FDS]);
void job_cancel(struct front *front, uint64_t id);
/* Takes the paths. */
void job_name_outputs(struct front *front, struct msg_outputs *outputs);
void job_cancel_all(struct warden *warden);
void job_watch_due(void *arg, uint32_t events);
void job_discard(struct warden_job *job);
/* Ends the jobs of a session. */
void job_cancel_session(struct warden *warden, const struct session *session);
/* The same, because of its workspace; `arg` is the warden. */
void job_end_session(void *arg, const struct session *session, const char *why);
/* Starts a job of the warden's own. */
int job_start_selftest(struct warden *warden, const struct settings *settings, struct job *job,
                       const int fds[MSG_JOB_FDS],
                       void (*done)(struct warden *warden, const struct job_result *result),
                       struct warden_job **ret, struct err *reterr);

/* admission.c */

/* ERR_DENIED: its key is no longer there. ERR_RATE: it, or its team, runs as many as it may;
 * `*ret_retry_after_ms` is when the first of them has to end, or stays. */
int job_check_load(const struct front *front, const struct job *asked, uint64_t *ret_retry_after_ms,
                   struct err *reterr);

/* guard.c */

/* With its process started. */
void guard_begin(struct front *front);
void guard_end(struct front *front);
/* Takes the descriptor that came with the front's hello, or -1. */
void guard_hello(struct front *front, int denials);
void guard_pong(struct front *front, uint64_t number);
void guard_tick(void *arg, uint32_t events);
/* Tells the service manager that the server lives, if its front has answered since; `arg` is the warden. */
void guard_watchdog_due(void *arg, uint32_t events);

/* approvals.c */

int warden_approvals_open(struct warden *warden, struct err *reterr);
/* The names of policies whose jobs may need an approval: theirs are settings', the list is the caller's. */
int approval_held_policies(const struct settings *settings, const char ***ret, size_t *ret_n);
/* Handle MSG_SUBMIT and MSG_APPROVAL_QUERY. */
void approval_submit(struct front *front, uint64_t id, int fd);
void approval_query_answer(struct front *front, const struct msg_approval_query *query);
/* Handles MSG_SUBMIT whose descriptor is lost. */
void approval_refuse(struct front *front, uint64_t id, const struct err *err);
/* ERR_DENIED where a job that a front sends needs an approval first. */
int approval_check_job(const struct front *front, const struct job *job, struct err *reterr);

/* turns.c */

/* Whose it is; `key` NULL: there are none. */
bool approval_belongs_to(const struct approval *approval, const struct key_config *key);
/* Whether the job may still run as it was submitted: its key, team, runtime and policy are what they were. */
int approval_still_runs(const struct settings *settings, const struct approval *approval, struct err *reterr);
/* Hands approved jobs to the front that serves, as many as there is room for. */
void approvals_tend(struct warden *warden);
/* How many it has, of that key (NULL: of all), and has not sent back yet. */
unsigned approvals_handed_over(const struct warden *warden, const char *key);
/* One of them, or of those that were put off, waits for the front's answer to a ping. */
bool approvals_await_answer(const struct warden *warden);
/* It has answered that ping. What it was told to run before, and has not sent back, it could not begin: it,
 * or another, is told so again. */
void approvals_answered(const struct front *front, uint64_t ping);
/* The kernel of that session is about to run an approved job. */
bool approvals_claim_kernel(const struct warden *warden, const char *session_id);
/* The approved job that a front has been told to run, with its input. ERR_CONFLICT: it has not been told;
 * whatever else, as of approval_not_begun(). */
int approval_take(struct front *front, const char *approval_id, struct job **ret, int *ret_input,
                  struct err *reterr);
/* All that it needs is there: notes that it begins. ERR_BUSY where that cannot be noted, and it does not. */
int approval_begin(struct warden *warden, const char *approval_id, struct err *reterr);
/* What the job needs is not there, or its jail cannot be, or approval_begin() has failed. ERR_BUSY on return:
 * it has not begun, and waits on; whatever else, it has had its turn. */
void approval_not_begun(struct front *front, const char *approval_id, struct err *err);
/* It has ended, or nobody knows (`known`). */
void approval_end(struct warden *warden, const char *approval_id, bool known, const char *outcome);

/* floor.c */

int warden_floor_open(struct warden *warden, struct err *reterr);
void warden_floor_close(struct warden *warden);
/* A job has begun: the host is looked at from now on. */
void warden_floor_arm(struct warden *warden);
/* ERR_BUSY while the host is short of memory. */
int warden_floor_check(struct warden *warden, uint64_t *ret_retry_after_ms, struct err *reterr);

/* audit.c */

/* Opens the trail that the settings ask for; `*ret` is NULL where there is none, or the one there is. */
int warden_audit_open(struct warden *warden, const struct settings *settings, struct audit_trail **ret,
                      struct err *reterr);
int warden_audit_start(struct warden *warden, struct err *reterr);
void warden_audit_stop(struct warden *warden);
/* Under `audit_on_failure: STOP`: the line without which the job may not begin. ERR_BUSY: it is not there. */
int warden_audit_begin_job(struct warden *warden, const struct job *asked,
                           const struct runtime_config *runtime, const struct policy *policy,
                           uint64_t *ret_retry_after_ms, struct err *reterr);
/* Where there is a trail. */
void warden_audit_append(struct warden *warden, const char *line, size_t size);
/* After a reload: `next_audit` takes over. */
void warden_audit_change(struct warden *warden);
/* `*ret_fd` is the front's end of a socket for its lines, to be closed; -1: it writes them to the log. */
int front_audit_begin(struct front *front, int *ret_fd, struct err *reterr);
void front_audit_end(struct front *front);

/* state.c */

/* The only place where a front changes its state; false where it may not. */
bool front_set_state(struct front *front, enum front_state state);
/* Its jobs end, and nobody hears of them; what else it was told to run it will not send any more. */
void front_close_channel(struct front *front);
void front_kill(struct front *front, const char *why);
/* It names its next job. False where the id, or what else is `broken` (NULL: nothing), has cost its life. */
bool front_next_job(struct front *front, uint64_t id, const char *broken);
/* Sends or queues; a front that cannot be told anything is killed. */
void front_send(struct front *front, const struct msg *msg, const int *fds, size_t n_fds);
/* Sends what is queued. */
void front_flush(struct front *front);
void front_send_state(struct front *front);
/* Tells every front the state as it is now. */
void warden_publish_state(struct warden *warden);
/* The same, if the stock of warm jails has changed; `arg` is the warden. */
void warden_publish_warm(void *arg);
/* To the service manager, once: a front serves and the self-test has ended, whatever it found. */
void warden_tell_ready(struct warden *warden);
/* The same of a reload; `refused`: why it has been, or NULL. */
void warden_tell_reloading(struct warden *warden);
void warden_tell_reloaded(struct warden *warden, const struct err *refused);
/* A job's jail could not be built, or what it needs could not be had: the self-test is due. */
void warden_doubt(struct warden *warden);
/* Stops the loop once a drain is over. Called after each end of a front or a job. */
void warden_check_drained(struct warden *warden);
