/* Binds the one socket that the fronts accept from, or takes it from a service manager, whose it stays: then
 * it outlives this server. Runs in the warden, at start only, before any privilege is dropped (a port below
 * 1024). The warden keeps the socket, so that a front that crashes loses no connection in the backlog. */
#include "server/host/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"

#define UNIX_PREFIX "unix:"

/* The first descriptor that a service manager hands over. */
#define INHERITED_FD 3

static int bad_address(struct err *reterr, const char *text, const char *why)
{
    return err_set(reterr, ERR_CONFIG, EINVAL, "listen", "'%s': %s", text, why);
}

static int parse_unix(const char *text, struct listen_address *ret, struct err *reterr)
{
    const char *path = text + strlen(UNIX_PREFIX);
    if (path[0] != '/') {
        return bad_address(reterr, text, "a socket's path must be absolute: unix:/run/immure/socket");
    }
    if (strlen(path) >= sizeof ret->path) {
        return bad_address(reterr, text, "a socket's path has at most 107 bytes");
    }
    ret->is_unix = true;
    memcpy(ret->path, path, strlen(path) + 1);
    return 0;
}

static int parse_port(const char *text, const char *port, struct listen_address *ret, struct err *reterr)
{
    uint64_t number;
    if (strlen(port) >= sizeof ret->port || io_parse_u64(port, &number) < 0 || number > 65535) {
        return bad_address(reterr, text, "the port must be a number from 0 to 65535");
    }
    memcpy(ret->port, port, strlen(port) + 1);
    return 0;
}

int listen_parse(const char *text, struct listen_address *ret, struct err *reterr)
{
    struct listen_address address = {0};
    if (strncmp(text, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0) {
        int r = parse_unix(text, &address, reterr);
        if (r == 0) {
            *ret = address;
        }
        return r;
    }
    const char *colon = strrchr(text, ':');
    if (!colon) {
        return bad_address(reterr, text, "expected HOST:PORT, [HOST]:PORT or unix:/path");
    }
    const char *host = text;
    size_t length = (size_t)(colon - text);
    if (text[0] == '[') {
        if (length < 2 || colon[-1] != ']') {
            return bad_address(reterr, text, "expected [HOST]:PORT");
        }
        host++;
        length -= 2;
    } else if (memchr(text, ':', length)) {
        return bad_address(reterr, text, "an IPv6 address goes into brackets: [::1]:9099");
    }
    if (length == 0) {
        return bad_address(reterr, text, "no host; 0.0.0.0 or [::] stands for every address of this machine");
    }
    if (length >= sizeof address.host) {
        return bad_address(reterr, text, "the host's name is too long");
    }
    memcpy(address.host, host, length);
    int r = parse_port(text, colon + 1, &address, reterr);
    if (r == 0) {
        *ret = address;
    }
    return r;
}

void listen_host(const struct listen_address *address, char ret[LISTEN_TEXT_BYTES])
{
    bool brackets = strchr(address->host, ':') != NULL;
    snprintf(ret, LISTEN_TEXT_BYTES, brackets ? "[%s]:%s" : "%s:%s", address->host, address->port);
    if (address->is_unix) {
        snprintf(ret, LISTEN_TEXT_BYTES, "localhost");
    }
}

#define SOMEBODY_LISTENS "; another process listens there: choose another address"

static const char *inet_remedy(int code)
{
    return code == EADDRINUSE      ? SOMEBODY_LISTENS
           : code == EACCES        ? "; a port below 1024 needs CAP_NET_BIND_SERVICE"
           : code == EADDRNOTAVAIL ? "; this machine does not have that address"
                                   : "";
}

static const char *unix_remedy(int code, const char *path)
{
    struct stat st;
    if (code == EADDRINUSE && lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode)) {
        return "; what is there is no socket: remove it, or choose another path";
    }
    return code == EADDRINUSE ? SOMEBODY_LISTENS
           : code == EACCES   ? "; this user may not make a file in that directory"
           : code == ENOENT   ? "; that directory does not exist"
                              : "";
}

static int listen_failed(struct err *reterr, const char *text, int code, const char *remedy)
{
    return err_set(reterr, ERR_CONFIG, code, "listen", "cannot listen on %s: %s%s", text, strerror(code),
                   remedy);
}

static int bind_and_listen(int fd, const struct sockaddr *address, socklen_t size)
{
    return bind(fd, address, size) < 0 || listen(fd, SOMAXCONN) < 0 ? -errno : 0;
}

/* A socket file outlives its process. It may be replaced only if it is a socket and nobody answers. */
static void remove_stale(const struct sockaddr_un *address)
{
    struct stat st;
    if (lstat(address->sun_path, &st) < 0 || !S_ISSOCK(st.st_mode)) {
        return;
    }
    CLEANUP(fd_closep) int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe >= 0 && connect(probe, (const struct sockaddr *)address, sizeof *address) < 0 &&
        errno == ECONNREFUSED) {
        unlink(address->sun_path);
    }
}

static int open_unix(const char *text, const struct listen_address *address, int *ret_fd, struct err *reterr)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    memcpy(sun.sun_path, address->path, strlen(address->path));
    CLEANUP(fd_closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return listen_failed(reterr, text, errno, "");
    }
    remove_stale(&sun);
    int r = bind_and_listen(fd, (const struct sockaddr *)&sun, sizeof sun);
    if (r < 0) {
        return listen_failed(reterr, text, -r, unix_remedy(-r, address->path));
    }
    *ret_fd = TAKE_FD(fd);
    return 0;
}

static int open_inet(const char *text, const struct listen_address *address, int *ret_fd, struct err *reterr)
{
    struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int r = getaddrinfo(address->host, address->port, &hints, &found);
    if (r != 0) {
        return err_set(reterr, ERR_CONFIG, EINVAL, "listen", "cannot listen on %s: %s", text,
                       gai_strerror(r));
    }
    int code = EADDRNOTAVAIL;
    for (const struct addrinfo *at = found; at; at = at->ai_next) {
        CLEANUP(fd_closep)
        int fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, at->ai_protocol);
        int on = 1;
        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0) {
            code = errno;
            continue;
        }
        code = -bind_and_listen(fd, at->ai_addr, at->ai_addrlen);
        if (code == 0) {
            *ret_fd = TAKE_FD(fd);
            break;
        }
    }
    freeaddrinfo(found);
    return code == 0 ? 0 : listen_failed(reterr, text, code, inet_remedy(code));
}

static void describe_bound(int fd, const char *text, char ret[LISTEN_TEXT_BYTES])
{
    struct sockaddr_storage bound;
    socklen_t size = sizeof bound;
    char host[256], port[8];
    if (getsockname(fd, (struct sockaddr *)&bound, &size) < 0 ||
        getnameinfo((struct sockaddr *)&bound, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        snprintf(ret, LISTEN_TEXT_BYTES, "%s", text);
        return;
    }
    snprintf(ret, LISTEN_TEXT_BYTES, bound.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

int listen_open(const char *text, int *ret_fd, char ret_bound[LISTEN_TEXT_BYTES], struct err *reterr)
{
    struct listen_address address;
    int r = listen_parse(text, &address, reterr);
    if (r < 0) {
        return r;
    }
    int fd = -1;
    r = address.is_unix ? open_unix(text, &address, &fd, reterr) : open_inet(text, &address, &fd, reterr);
    if (r < 0) {
        return r;
    }
    if (address.is_unix) {
        snprintf(ret_bound, LISTEN_TEXT_BYTES, "%s", text);
    } else {
        describe_bound(fd, text, ret_bound);
    }
    *ret_fd = fd;
    return 0;
}

/* ---- From a service manager ---- */

static int bad_variable(struct err *reterr, const char *name, const char *value, const char *why)
{
    return err_set(reterr, ERR_CONFIG, EINVAL, name, "'%.60s': %s", value, why);
}

/* 1: there is one; 0: there is none. */
static int read_variables(const char *pid_text, const char *fds_text, struct err *reterr)
{
    uint64_t pid, n;
    if (!pid_text || !fds_text) {
        return 0;
    }
    if (io_parse_u64(pid_text, &pid) < 0 || pid == 0 || pid > INT_MAX) {
        return bad_variable(reterr, "LISTEN_PID", pid_text, "expected the number of a process");
    }
    if (pid != (uint64_t)getpid()) {
        return 0; /* somebody else's, who started this process */
    }
    if (io_parse_u64(fds_text, &n) < 0 || n > INT_MAX) {
        return bad_variable(reterr, "LISTEN_FDS", fds_text, "expected a number of descriptors");
    }
    return n <= 1
               ? (int)n
               : bad_variable(reterr, "LISTEN_FDS", fds_text,
                              "the server listens on one socket: leave one ListenStream= in immure.socket");
}

static bool has_option(int fd, int option, int expected)
{
    int value = 0;
    socklen_t size = sizeof value;
    return getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 && value == expected;
}

static int take_inherited(int fd, struct err *reterr)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0) {
        return err_set(reterr, ERR_CONFIG, errno, "LISTEN_FDS", "descriptor %d is not open: %s", fd,
                       strerror(errno));
    }
    if (!has_option(fd, SO_TYPE, SOCK_STREAM) || !has_option(fd, SO_ACCEPTCONN, 1)) {
        return err_set(reterr, ERR_CONFIG, ENOTSOCK, "LISTEN_FDS",
                       "descriptor %d is no listening stream socket: ListenStream= and Accept=no make one",
                       fd);
    }
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
        return err_errno(reterr, errno, "taking the socket that was handed over");
    }
    return 0;
}

int listen_inherited(int *ret_fd, struct err *reterr)
{
    static const char *const variables[] = {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID"};
    int n = read_variables(getenv("LISTEN_PID"), getenv("LISTEN_FDS"), reterr);
    for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
        unsetenv(variables[i]);
    }
    int r = n == 1 ? take_inherited(INHERITED_FD, reterr) : n;
    if (r < 0 || n == 0) {
        return r;
    }
    *ret_fd = INHERITED_FD;
    return 1;
}

static bool same_inet(const struct sockaddr *a, const struct sockaddr_storage *bound)
{
    const struct sockaddr_in *a4 = (const struct sockaddr_in *)a, *b4 = (const struct sockaddr_in *)bound;
    const struct sockaddr_in6 *a6 = (const struct sockaddr_in6 *)a, *b6 = (const struct sockaddr_in6 *)bound;
    if (a->sa_family != bound->ss_family) {
        return false;
    }
    if (a->sa_family == AF_INET) {
        return a4->sin_addr.s_addr == b4->sin_addr.s_addr &&
               (a4->sin_port == 0 || a4->sin_port == b4->sin_port);
    }
    return memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof a6->sin6_addr) == 0 &&
           (a6->sin6_port == 0 || a6->sin6_port == b6->sin6_port);
}

static bool is_bound_to(const struct listen_address *address, const struct sockaddr_storage *bound)
{
    const struct sockaddr_un *sun = (const struct sockaddr_un *)bound;
    struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (address->is_unix) {
        return bound->ss_family == AF_UNIX && strcmp(sun->sun_path, address->path) == 0;
    }
    if (getaddrinfo(address->host, address->port, &hints, &found) != 0) {
        return false;
    }
    bool same = false;
    for (const struct addrinfo *at = found; at && !same; at = at->ai_next) {
        same = same_inet(at->ai_addr, bound);
    }
    freeaddrinfo(found);
    return same;
}

int listen_check(const char *text, int fd, char ret_bound[LISTEN_TEXT_BYTES], struct err *reterr)
{
    struct listen_address address;
    struct sockaddr_storage bound = {0};
    socklen_t size = sizeof bound - 1; /* a path of a unix socket may fill it */
    int r = listen_parse(text, &address, reterr);
    if (r < 0) {
        return r;
    }
    if (getsockname(fd, (struct sockaddr *)&bound, &size) < 0) {
        return err_errno(reterr, errno, "looking at the socket that was handed over");
    }
    if (bound.ss_family == AF_UNIX) {
        snprintf(ret_bound, LISTEN_TEXT_BYTES, UNIX_PREFIX "%s", ((struct sockaddr_un *)&bound)->sun_path);
    } else {
        describe_bound(fd, "an address of another kind", ret_bound);
    }
    return is_bound_to(&address, &bound)
               ? 0
               : err_set(reterr, ERR_CONFIG, EINVAL, "listen",
                         "the service manager hands over a socket at %s, and the configuration says %s: make "
                         "ListenStream= of immure.socket and `listen` the same",
                         ret_bound, text);
}

void listen_forget(const char *text)
{
    struct listen_address address;
    if (listen_parse(text, &address, NULL) == 0 && address.is_unix) {
        unlink(address.path);
    }
}
