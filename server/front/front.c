/* The front process: takes the configuration from the warden, serves HTTP, passes jobs on and verdicts back.
 * It has no privileges and never clones. It lives as long as the channel to the warden, and ends after a
 * drain when the last request is answered. Signals that end a server are the warden's business: it is told of
 * them by the warden. */
#include "server/front/front.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/base/loop.h"
#include "jail/base/slice.h"
#include "server/bridge/egress.h"
#include "server/bridge/held_calls.h"
#include "server/bridge/proxy.h"
#include "server/doors/content_type.h"
#include "server/doors/mcp_session.h"
#include "server/front/callers.h"
#include "server/front/catalogue.h"
#include "server/front/figures.h"
#include "server/front/first_words.h"
#include "server/front/guesses.h"
#include "server/front/inbound.h"
#include "server/front/outward.h"
#include "server/front/relayed.h"
#include "server/front/sandbox.h"
#include "server/host/process_stats.h"
#include "server/http/http.h"
#include "server/jobs/approvals.h"
#include "server/jobs/decoder.h"
#include "server/jobs/dispatch.h"
#include "server/jobs/front_context.h"
#include "server/jobs/kept_jobs.h"
#include "server/jobs/relays.h"
#include "server/jobs/session_queries.h"
#include "server/jobs/stream.h"
#include "server/kit/log.h"
#include "server/kit/metrics.h"
#include "server/kit/sentence.h"
#include "server/link/channel.h"

#define BODIES_AT_ONCE   8 /* of the largest size, in memory */
#define SMALL_BODY_BYTES 65536
#define MESSAGE_FDS      2  /* beside the warden's words, but for its verdicts, which hold theirs */
#define SPARE_JOBS       64 /* that wait for the warden to refuse them */

struct front_process {
    struct front front;
    struct channel *channel;
    struct loop_source *channel_source;
    int listen_fd;
    struct first_words first;
    unsigned max_connections;
    bool leaving; /* no more connections: the server shuts down, or another front has taken over */
    bool stopped;
    int exit_code;
};

static int fail(struct log *log, const char *event, const struct err *err)
{
    log_err(log, LOG_ERROR, event, err);
    return EXIT_FAILURE;
}

/* Descriptors that nobody meant to pass on are nobody's. */
static int close_strays(int channel_fd, int listen_fd, struct err *reterr)
{
    unsigned low = (unsigned)(channel_fd < listen_fd ? channel_fd : listen_fd);
    unsigned high = (unsigned)(channel_fd < listen_fd ? listen_fd : channel_fd);
    if ((low > 3 && close_range(3, low - 1, 0) < 0) ||
        (high > low + 1 && close_range(low + 1, high - 1, 0) < 0) || close_range(high + 1, ~0u, 0) < 0) {
        return err_errno(reterr, errno, "closing inherited descriptors");
    }
    return 0;
}

/* A crash must not leave keys in a core file, nor a neighbour of the same uid look into the memory. */
static int hide_memory(struct err *reterr)
{
    if (prctl(PR_SET_DUMPABLE, 0) < 0) {
        return err_errno(reterr, errno, "forbidding core files");
    }
    return 0;
}

/* A terminal's Ctrl-C and a service manager's SIGTERM reach the whole group; only the warden acts on them. */
static void set_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    static const int ignored[] = {SIGPIPE, SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < ARRAY_SIZE(ignored); i++) {
        signal(ignored[i], SIG_IGN);
    }
}

/* As many descriptors as the configuration can make it need, and no more. Returns how many connections there
 * is room for then: were there more, those that say nothing could take the descriptors of all others. */
static unsigned limit_descriptors(const struct front *front)
{
    const struct server_config *config = front->config;
    struct rlimit files;
    const rlim_t own = 256; /* logs, libraries, the files of one verdict */
    const rlim_t per_job = 8 + (config->n_egress > 0 ? EGRESS_FDS_PER_JOB : 0) +
                           (front->egress_policies.n_policies > 0 ? PROXY_FDS_PER_JOB : 0);
    const rlim_t waiting =
        config->max_queued_jobs ? config->max_queued_jobs : (rlim_t)4 * config->max_concurrent_jobs;
    rlim_t others = own + per_job * (config->max_concurrent_jobs + SPARE_JOBS) + waiting;
    rlim_t enough = others + config->max_connections;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0) {
        return config->max_connections;
    }
    files.rlim_max = enough < files.rlim_max ? enough : files.rlim_max;
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_max == enough) {
        return config->max_connections;
    }
    rlim_t few = files.rlim_max / 4, rest = files.rlim_max > others ? files.rlim_max - others : 0;
    rlim_t room = rest > few ? rest : few;
    return room == 0 ? 1 : room < config->max_connections ? (unsigned)room : config->max_connections;
}

static void tell_of_fewer_connections(const struct front *front, unsigned n)
{
    if (n < front->config->max_connections) {
        LOG(front->log, LOG_WARNING, "fewer_connections", LOG_FIELD_U64("max_connections", n),
            LOG_FIELD_U64("configured", front->config->max_connections),
            LOG_FIELD_STR("error",
                          "the limit of open files leaves no room for more: " SENTENCE_RAISE_OPEN_FILES
                          " or lower max_connections"));
    }
}

/* The listening socket is closed here; when the warden has closed its own, callers are refused by the kernel.
 * Where another front has taken over, or a service manager keeps the socket for the next server, those take
 * whoever waits, and what has been accepted here is served. */
static void leave(struct front_process *process)
{
    struct front *front = &process->front;
    const char *event = front->draining ? "draining" : "superseded";
    LOG(front->log, LOG_INFO, event, LOG_FIELD_U64("connections", http_server_connections(front->http)));
    process->leaving = true;
    front_approvals_stop_waiting(front->approvals);
    enum http_heir heir = front->state.begins_nothing ? HTTP_HEIR_NONE
                          : front->draining           ? HTTP_HEIR_COMES
                                                      : HTTP_HEIR_SERVES;
    http_server_drain(front->http, heir, front->config->drain_idle_ms);
    if (heir != HTTP_HEIR_COMES) { /* which may still be accepted from */
        fd_closep(&process->listen_fd);
    }
}

/* While the server shuts down for good, a connection that has not said anything is nobody's loss. Where
 * another takes over it is: its caller may be about to speak. */
static bool has_left(const struct front_process *process)
{
    const struct front *front = &process->front;
    size_t held =
        front->state.begins_nothing ? http_server_busy(front->http) : http_server_connections(front->http);
    return process->leaving && held == 0 && dispatch_jobs(front->dispatch) == 0;
}

static void take_state(struct front_process *process, const struct msg_state *state)
{
    struct front *front = &process->front;
    front->state = *state;
    front->draining = state->draining;
    figures_of_state(front);
    catalogue_take_state(front);
    if (state->begins_nothing) {
        dispatch_stop_waiting(front->dispatch);
    }
    dispatch_take_state(front->dispatch);
    if ((state->draining || state->superseded) && !process->leaving) {
        leave(process);
    }
}

static int take_callers(struct front *front, int fd)
{
    struct err err = {0};
    int r = callers_take(front, fd, &err);
    if (r < 0) {
        log_err(front->log, LOG_ERROR, "callers_not_taken", &err); /* nor left as they were: it ends */
    }
    return r;
}

/* Descriptors beside it stay the caller's. */
static int take_message(struct front_process *process, struct msg *msg, const int *fds, size_t n_fds)
{
    struct front *front = &process->front;
    switch (msg->type) {
    case MSG_STATE:
        take_state(process, &msg->state);
        return 0;
    case MSG_CALLERS:
        return take_callers(front, n_fds > 0 ? fds[0] : -1);
    case MSG_DONE:
        return dispatch_done(front->dispatch, &msg->done);
    case MSG_REFUSED:
        return dispatch_refused(front->dispatch, &msg->refused);
    case MSG_PING: {
        struct msg pong = {.type = MSG_PONG, .pong = {.number = msg->ping.number}};
        return channel_send(process->channel, &pong, NULL, 0, NULL);
    }
    case MSG_STARTED:
        return dispatch_started(front->dispatch, msg->started.id);
    case MSG_EGRESS:
        return dispatch_take_egress(front->dispatch, &msg->egress, n_fds > 0 ? fds[0] : -1);
    case MSG_SESSION_ANSWER:
        return session_queries_answered(front->session_queries, &msg->session_answer,
                                        n_fds > 0 ? fds[0] : -1);
    case MSG_KEPT_ANSWER:
        return kept_queries_answered(front->kept_queries, &msg->kept_answer, n_fds > 0 ? fds[0] : -1);
    case MSG_RELAY:
        return relayed_ask(front, &msg->relay, n_fds > 0 ? fds[0] : -1);
    case MSG_RELAY_ANSWER:
        return relays_answered(front->relays, &msg->relay_answer, n_fds > 0 ? fds[0] : -1);
    case MSG_APPROVAL_ANSWER:
        return front_approvals_answered(front->approvals, &msg->approval_answer, fds, n_fds);
    case MSG_APPROVAL_CHANGED:
        front_approvals_changed(front->approvals, &msg->approval_changed);
        return 0;
    case MSG_APPROVAL_RUN:
        return front_approvals_run(front->approvals, msg->approval_run.approval_id, fds[0]);
    default:
        return -EPROTO; /* the channel's table lets nothing else through */
    }
}

/* There was no descriptor left for what came with it. */
static int take_bare(struct front_process *process, struct msg *msg)
{
    LOG(process->front.log, LOG_WARNING, "no_descriptor",
        LOG_FIELD_STR("message", msg_type_to_string(msg->type)));
    if (msg->type == MSG_APPROVAL_RUN) {
        return 0; /* it is handed over again */
    }
    if (msg->type == MSG_APPROVAL_ANSWER) {
        msg->approval_answer.kind = ERR_BUSY;
        snprintf(msg->approval_answer.text, sizeof msg->approval_answer.text,
                 "server busy: no descriptor is free for the answer; what was asked for may have been done");
    }
    if (msg->type == MSG_KEPT_ANSWER) {
        msg->kept_answer.kind = ERR_BUSY;
        snprintf(msg->kept_answer.text, sizeof msg->kept_answer.text,
                 "server busy: no descriptor is free for the answer");
    }
    if (msg->type == MSG_RELAY_ANSWER) {
        msg->relay_answer.kind = ERR_BUSY;
        snprintf(msg->relay_answer.text, sizeof msg->relay_answer.text,
                 "server busy: no descriptor is free for the answer; what was asked for may have been done");
    }
    if (msg->type == MSG_SESSION_ANSWER) {
        msg->session_answer.kind = ERR_BUSY;
        snprintf(msg->session_answer.text, sizeof msg->session_answer.text,
                 "server busy: no descriptor is free for the answer");
    }
    return take_message(process, msg, NULL, 0); /* a verdict's files are told, without what is in them */
}

/* Without the warden there is nothing to do here; it starts another front if it is still there. */
static void stop(struct front_process *process, int exit_code)
{
    process->stopped = true;
    process->exit_code = exit_code;
}

static void lose_channel(struct front_process *process, int r, struct err *err)
{
    if (r != -EPIPE) {
        err_set(err, ERR_INTERNAL, -r, NULL, "a message that does not fit");
        log_err(process->front.log, LOG_ERROR, "channel_broken", err);
    } else if (!process->leaving) {
        LOG(process->front.log, LOG_ERROR, "channel_closed", LOG_FIELD_STR("error", "the warden is gone"));
    }
    stop(process, r == -EPIPE && process->leaving ? EXIT_SUCCESS : EXIT_FAILURE);
}

static void on_channel(void *arg, uint32_t events)
{
    struct front_process *process = arg;
    struct err err = {0};
    int r = 0;
    if (events & EPOLLOUT) {
        r = channel_flush(process->channel, &err);
    }
    while (r >= 0) {
        struct msg msg = {.type = MSG_NONE};
        int fds[MESSAGE_FDS];
        size_t n_fds = MESSAGE_FDS;
        r = channel_recv(process->channel, &msg, fds, &n_fds, &err);
        if (r <= 0) {
            break;
        }
        r = r == CHANNEL_BARE ? take_bare(process, &msg) : take_message(process, &msg, fds, n_fds);
        msg_clear(&msg);
        for (size_t i = 0; i < n_fds; i++) {
            fd_closep(&fds[i]);
        }
    }
    if (r < 0) {
        lose_channel(process, r, &err);
    }
}

static int start_http(struct front_process *process, struct err *reterr)
{
    struct front *front = &process->front;
    const struct server_config *config = front->config;
    struct http_options options = {
        .listen_fd = process->listen_fd,
        .max_body_bytes = (size_t)config->max_body_bytes,
        .max_header_bytes = config->max_header_bytes,
        .n_accounts = config->n_accounts,
        .max_bodies_bytes = (size_t)config->max_body_bytes * BODIES_AT_ONCE,
        .max_small_bodies_bytes = (size_t)config->max_body_bytes,
        .small_body_bytes = SMALL_BODY_BYTES,
        .max_unread_bytes = (size_t)config->max_unread_bytes,
        .max_unread_bytes_per_account = callers_unread_bytes(config),
        .reply_stall_ms = config->reply_stall_ms,
        .header_timeout_ms = config->header_timeout_ms,
        .request_timeout_ms = config->request_timeout_ms,
        .idle_timeout_ms = config->idle_timeout_ms,
        .max_connections = process->max_connections,
        .max_connections_per_address = config->max_connections_per_address,
    };
    return http_server_new(front->loop, &options, &inbound_events, front, &front->http, reterr);
}

static int start_decoder(void *arg, struct err *reterr)
{
    struct front *front = arg;
    return decoder_new(front->loop, front->config, inbound_decoded, &front->decoder, reterr);
}

static int start(struct front_process *process, struct err *reterr)
{
    struct front *front = &process->front;
    front->metrics = metrics_new();
    if (!front->metrics) {
        return err_errno(reterr, ENOMEM, "making the metrics");
    }
    figures_begin(front);
    inbound_begin_figures(front);
    int r = loop_new(&front->loop, reterr);
    if (r == 0) {
        r = dispatch_new(front, process->channel, &front->dispatch, reterr);
    }
    if (r == 0) {
        r = guesses_new(front->loop, inbound_refuse_key, &front->guesses, reterr);
    }
    if (r == 0) {
        r = session_queries_new(front, process->channel, &front->session_queries, reterr);
    }
    if (r == 0) {
        r = kept_queries_new(front, process->channel, &front->kept_queries, reterr);
    }
    if (r == 0) {
        r = relays_new(front, process->channel, &front->relays, reterr);
    }
    if (r == 0) {
        r = front_approvals_new(front, process->channel, process->first.held, process->first.n_held,
                                &front->approvals, reterr);
        process->first.held = r == 0 ? NULL : process->first.held;
    }
    if (r == 0) {
        r = streams_new(front->loop, front->config->stream_heartbeat_ms, &front->streams, reterr);
    }
    if (r == 0) {
        r = held_calls_new(front->loop, front->config->tool_timeout_ms, &front->held_calls, reterr);
    }
    if (r == 0) {
        front->mcp_sessions = mcp_sessions_new();
        r = front->mcp_sessions ? 0 : err_errno(reterr, ENOMEM, "making the table of MCP sessions");
    }
    if (r == 0) {
        r = start_http(process, reterr);
    }
    front->types = content_types_new(front->log);
    if (r == 0) {
        r = outward_start(front, reterr);
    }
    if (r == 0) {
        r = loop_add(front->loop, channel_fd(process->channel), EPOLLIN, on_channel, process,
                     &process->channel_source, reterr);
    }
    bool landlock = false;
    CLEANUP(fd_closep) int denials = -1;
    if (r == 0) {
        r = front_sandbox_enter(front->config, &front->egress_policies, start_decoder, front, &denials,
                                &landlock, reterr);
    }
    if (r == 0) {
        LOG(front->log, LOG_DEBUG, "sandboxed", LOG_FIELD_BOOL("landlock", landlock));
        r = channel_send(process->channel, &(struct msg){.type = MSG_HELLO}, &denials, denials >= 0, reterr);
    }
    if (r == 0) {
        take_state(process, &front->state);
    }
    return r;
}

static void run(struct front_process *process)
{
    struct front *front = &process->front;
    struct err err = {0};
    bool writing = false;
    while (!process->stopped) {
        if (loop_once(front->loop, http_server_timeout_ms(front->http), &err) < 0) {
            stop(process, fail(front->log, "loop_failed", &err));
            return;
        }
        http_server_run(front->http);
        outward_run(front);
        bool wants_write = channel_wants_write(process->channel);
        if (wants_write != writing) {
            loop_modify(process->channel_source, wants_write ? EPOLLIN | EPOLLOUT : EPOLLIN);
            writing = wants_write;
        }
        if (has_left(process)) {
            log_write(front->log, LOG_INFO, "drained", NULL, 0);
            stop(process, EXIT_SUCCESS);
        }
    }
}

static void clean_up(struct front_process *process)
{
    struct front *front = &process->front;
    http_server_free(front->http); /* ends the requests, which know of jobs */
    dispatch_free(front->dispatch);
    outward_end(front);
    content_types_free(front->types);
    guesses_free(front->guesses);
    session_queries_free(front->session_queries);
    kept_queries_free(front->kept_queries);
    relays_free(front->relays);
    front_approvals_free(front->approvals);
    held_calls_free(front->held_calls);
    streams_free(front->streams);
    decoder_free(front->decoder);
    mcp_sessions_free(front->mcp_sessions);
    loop_remove(process->channel_source);
    loop_free(front->loop);
    channel_free(process->channel);
    metrics_free(front->metrics);
    process_stats_free(front->process);
    log_free(front->audit);
    log_free(front->log);
    server_config_free(front->config);
    msg_policies_free(front->policies, front->n_policies);
    first_words_clear(&process->first);
    fd_closep(&process->listen_fd);
}

/* The audit log has its own level: it is written however quiet the log is. */
static int start_logs(struct front_process *process, struct err *reterr)
{
    struct front *front = &process->front;
    const struct server_config *config = front->config;
    log_free(front->log);
    front->log = log_new(STDERR_FILENO, config->log_format, config->log_level, "front");
    bool chained = process->first.audit_fd >= 0; /* by the warden, which takes lines of JSON */
    front->audit = log_new(chained ? process->first.audit_fd : STDERR_FILENO,
                           chained ? LOG_FORMAT_JSON : config->log_format, LOG_INFO, "front");
    if (chained) {
        log_lose_none(front->audit);
    }
    return front->log && front->audit ? 0 : err_errno(reterr, ENOMEM, "starting the log");
}

int front_main(int channel_fd, int listen_fd)
{
    struct front_process process = {
        .listen_fd = listen_fd, .first = {.audit_fd = -1}, .exit_code = EXIT_FAILURE};
    struct front *front = &process.front;
    struct err err = {0};
    front->log = log_new(STDERR_FILENO, LOG_FORMAT_LOGFMT, LOG_INFO, "front");
    set_signals();
    slice_shorten();
    int r = close_strays(channel_fd, listen_fd, &err);
    if (r == 0) {
        r = process_stats_new(&front->process, &err);
    }
    if (r == 0) {
        r = hide_memory(&err);
    }
    if (r == 0) {
        r = channel_new(channel_fd, CHANNEL_FRONT, &process.channel, &err);
    }
    if (r == 0) {
        r = first_words_receive(process.channel, front, &process.first, &err);
    }
    if (r == 0) {
        process.max_connections = limit_descriptors(front);
        tzset(); /* reads files, which nobody here can later */
        r = start_logs(&process, &err);
    }
    if (r == 0) {
        tell_of_fewer_connections(front, process.max_connections);
        r = start(&process, &err);
    }
    if (r == 0) {
        run(&process);
    } else {
        fail(front->log, "front_failed", &err);
    }
    clean_up(&process);
    return process.exit_code;
}
