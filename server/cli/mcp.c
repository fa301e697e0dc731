/* `immure mcp`: the Model Context Protocol on standard input and output, for clients that start their servers
 * themselves. It speaks to a server that runs, or starts one of its own on a socket that nobody else can
 * reach, with a key that nobody else knows, and ends it when its client has gone. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/server/environment.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/cli/command.h"
#include "server/cli/mcp_relay.h"
#include "server/cli/options.h"
#include "server/cli/tables.h"
#include "server/host/listen.h"
#include "server/kit/ident.h"

#define LINE_BYTES_MAX (64u << 20)
#define READ_BYTES     65536
#define START_MS       60000
#define RETRY_MS       10

struct mcp_options {
    const char *connect, *config;
};

static const struct option_row mcp_rows[] = {
    {"--connect", "ADDRESS",
     "a server that runs: HOST:PORT, [HOST]:PORT or unix:/path; the key is $SANDBOX_EXECUTOR_SERVICE_API_KEY",
     OPTION_TEXT, offsetof(struct mcp_options, connect)},
    {"--config", "FILE", "the configuration of the server that is started; as for `immure serve`",
     OPTION_TEXT, offsetof(struct mcp_options, config)},
};

const struct option_table mcp_table = {
    .command = "mcp",
    .examples = "immure mcp\n"
                "immure mcp --connect 127.0.0.1:9099\n",
    .synopsis = "[--connect ADDRESS | --config FILE]",
    .about = "Speaks the Model Context Protocol on standard input and output, one message per line: the tool "
             "execute_code runs a program in a jail. Without --connect it starts a server of its own, which "
             "ends with it; that server's log goes to standard error.",
    .footer =
        "Exit code: 0 when standard input has ended and every call is answered, 1 if it could not start or "
        "lost its server, 2 for wrong usage.",
    .rows = mcp_rows,
    .n_rows = ARRAY_SIZE(mcp_rows),
};

/* The server of our own; nothing of it where --connect is given. */
struct own_server {
    char directory[64], listen[LISTEN_TEXT_BYTES], key[IDENT_BYTES];
    pid_t pid;
    int pidfd;
};

struct session {
    struct listen_address address;
    struct own_server own;
    char *key;
    struct relay *relay;
    int signal_fd;
    struct buf line; /* what has been read of the next one */
    bool ended;      /* standard input has */
    bool dropping;   /* the rest of a line that is too long */
};

/* ---- A server of our own ---- */

static int make_directory(struct own_server *own, struct err *reterr)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    const char *parent = runtime && *runtime == '/' && strlen(runtime) < 40 ? runtime : "/tmp";
    snprintf(own->directory, sizeof own->directory, "%s/immure-mcp-XXXXXX", parent);
    if (!mkdtemp(own->directory)) {
        int code = errno;
        own->directory[0] = '\0';
        return err_errno(reterr, code, "making a directory for the server's socket");
    }
    snprintf(own->listen, sizeof own->listen, "unix:%s/socket", own->directory);
    return 0;
}

static void run_server(const struct own_server *own, const char *config, pid_t parent)
{
    sigset_t none;
    char name[] = "immure", serve[] = "serve", option[] = "--config";
    char *argv[] = {name, serve, config ? option : NULL, (char *)(uintptr_t)config, NULL};
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) {
        _exit(EXIT_CODE_FAILED);
    }
    setenv("SANDBOX_EXECUTOR_SERVICE_API_KEY", own->key, 1);
    unsetenv("SANDBOX_EXECUTOR_SERVICE_API_KEY_FILE");
    setenv("SANDBOX_EXECUTOR_ADDR", own->listen, 1);
    unsetenv("SANDBOX_EXECUTOR_ADDR_FILE");
    unsetenv("SANDBOX_ADDR");
    /* Standard output is the protocol's, standard input too. */
    dup2(STDERR_FILENO, STDOUT_FILENO);
    close(STDIN_FILENO);
    execv("/proc/self/exe", argv);
    perror("immure mcp: starting the server");
    _exit(EXIT_CODE_FAILED);
}

/* Until somebody listens, or the server has ended. */
static int wait_until_it_listens(const struct session *session, struct err *reterr)
{
    struct pollfd ended = {.fd = session->own.pidfd, .events = POLLIN};
    for (int waited_ms = 0; waited_ms < START_MS; waited_ms += RETRY_MS) {
        CLEANUP(fd_closep) int fd = relay_connect(&session->address);
        if (fd >= 0) {
            return 0;
        }
        if (poll(&ended, 1, RETRY_MS) > 0) {
            break;
        }
    }
    return err_set(reterr, ERR_UNAVAILABLE, ETIMEDOUT, NULL, "the server did not start; its log says why");
}

static int start_own(struct session *session, const char *config, struct err *reterr)
{
    struct own_server *own = &session->own;
    pid_t self = getpid();
    ident_fresh(own->key);
    int r = make_directory(own, reterr);
    r = r < 0 ? r : listen_parse(own->listen, &session->address, reterr);
    if (r < 0) {
        return r;
    }
    session->key = strdup(own->key);
    own->pid = fork();
    if (own->pid == 0) {
        run_server(own, config, self);
    }
    own->pidfd = own->pid > 0 ? pidfd_open(own->pid, 0) : -1;
    if (!session->key || own->pidfd < 0) {
        return err_errno(reterr, errno, "starting the server");
    }
    return wait_until_it_listens(session, reterr);
}

static void stop_own(struct own_server *own)
{
    char path[128];
    if (own->pid > 0) {
        kill(own->pid, SIGTERM);
        waitpid(own->pid, NULL, 0);
    }
    fd_closep(&own->pidfd);
    if (own->directory[0] != '\0') {
        snprintf(path, sizeof path, "%s/socket", own->directory);
        unlink(path);
        rmdir(own->directory);
    }
}

/* ---- A server that runs ---- */

static int find_server(struct session *session, const char *address, struct err *reterr)
{
    int r = listen_parse(address, &session->address, reterr);
    return r < 0 ? r : environment_key(environ, &session->key, reterr);
}

/* ---- Lines ---- */

static void take_lines(struct session *session)
{
    char *feed;
    struct buf *line = &session->line;
    size_t start = 0;
    while ((feed = line->len > start ? memchr(line->data + start, '\n', line->len - start) : NULL)) {
        size_t size = (size_t)(feed - line->data) - start;
        if (!session->dropping && size > 0) {
            relay_take(session->relay, line->data + start, size);
        }
        session->dropping = false;
        start += size + 1;
    }
    if (start > 0) {
        memmove(line->data, line->data + start, line->len - start);
        line->len -= start;
    }
    if (line->len > LINE_BYTES_MAX) {
        if (!session->dropping) {
            relay_take(session->relay, "", 0); /* which is no message, and is told so */
        }
        session->dropping = true;
        line->len = 0;
    }
}

static void read_input(struct session *session)
{
    char *to = buf_reserve(&session->line, READ_BYTES);
    ssize_t n = to ? read(STDIN_FILENO, to, READ_BYTES) : 0;
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0) {
        session->ended = true;
        if (session->line.len > 0 && !session->dropping) {
            relay_take(session->relay, session->line.data, session->line.len); /* no line feed ends it */
        }
        return;
    }
    session->line.len += (size_t)n;
    take_lines(session);
}

static int watch_signals(struct session *session, struct err *reterr)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    signal(SIGPIPE, SIG_IGN);
    if (sigprocmask(SIG_BLOCK, &set, NULL) == 0) {
        session->signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
    }
    return session->signal_fd < 0 ? err_errno(reterr, errno, "watching signals") : 0;
}

/* Until the client has gone and has its answers, or we are told to end. */
static int serve_client(struct session *session, struct err *reterr)
{
    enum { INPUT, SIGNAL, SERVER, OWN };
    struct pollfd fds[OWN + RELAY_CALLS_MAX];
    while (relay_is_heard(session->relay) && (!session->ended || relay_calls(session->relay) > 0)) {
        /* One more than fits is answered with an error: so as many as fit are read ahead of none. */
        bool reads = !session->ended && relay_calls(session->relay) < RELAY_CALLS_MAX;
        fds[INPUT] = (struct pollfd){.fd = reads ? STDIN_FILENO : -1, .events = POLLIN};
        fds[SIGNAL] = (struct pollfd){.fd = session->signal_fd, .events = POLLIN};
        fds[SERVER] = (struct pollfd){.fd = session->own.pidfd, .events = POLLIN};
        size_t n = relay_poll(session->relay, fds + OWN);
        if (poll(fds, OWN + n, -1) < 0 && errno != EINTR) {
            return err_errno(reterr, errno, "waiting");
        }
        if (fds[SIGNAL].revents) {
            return 0;
        }
        if (fds[SERVER].revents) {
            return err_set(reterr, ERR_UNAVAILABLE, ESRCH, NULL, "the server has ended; its log says why");
        }
        relay_run(session->relay, fds + OWN, n);
        if (fds[INPUT].revents) {
            read_input(session);
        }
    }
    return 0;
}

static int run(struct session *session, const struct mcp_options *options, struct err *reterr)
{
    int r = watch_signals(session, reterr);
    r = r < 0              ? r
        : options->connect ? find_server(session, options->connect, reterr)
                           : start_own(session, options->config, reterr);
    if (r < 0) {
        return r;
    }
    const struct relay_options relay = {
        .server = &session->address, .key = session->key, .out_fd = STDOUT_FILENO};
    r = relay_new(&relay, &session->relay, reterr);
    return r < 0 ? r : serve_client(session, reterr);
}

int cmd_mcp(int argc, char **argv)
{
    struct mcp_options options = {0};
    struct session session = {.signal_fd = -1, .own = {.pidfd = -1}};
    struct err err = {0};
    int n_arguments;
    int r = options_parse(&mcp_table, argc, argv, &options, &n_arguments, &err);
    if (r == OPTIONS_HELP) {
        options_print_help(&mcp_table, stdout);
        return EXIT_CODE_OK;
    }
    if (r == 0 && n_arguments > 0) {
        r = err_set(&err, ERR_INVALID, 0, argv[1], "mcp takes no arguments");
    }
    if (r == 0 && options.connect && options.config) {
        r = err_set(&err, ERR_INVALID, 0, "--config", "a server that runs has its own");
    }
    if (r < 0) {
        return command_fail("mcp", &err, EXIT_CODE_USAGE);
    }
    r = run(&session, &options, &err);
    relay_free(session.relay);
    stop_own(&session.own);
    fd_closep(&session.signal_fd);
    buf_free(&session.line);
    if (session.key) {
        explicit_bzero(session.key, strlen(session.key));
    }
    free(session.key);
    return r < 0 ? command_fail("mcp", &err, EXIT_CODE_FAILED) : EXIT_CODE_OK;
}
