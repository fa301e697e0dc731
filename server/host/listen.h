/* The listening socket: HOST:PORT, [HOST]:PORT or unix:/path. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/un.h>

struct err;

struct listen_address {
    bool is_unix;
    char host[256]; /* without brackets */
    char port[6];
    char path[sizeof((struct sockaddr_un *)0)->sun_path];
};

/* Pure: nothing is looked up. ERR_CONFIG with item "listen". */
int listen_parse(const char *text, struct listen_address *ret, struct err *reterr);

#define LISTEN_TEXT_BYTES 320

/* What a caller of that address says as Host. */
void listen_host(const struct listen_address *address, char ret[LISTEN_TEXT_BYTES]);

/* A listening, non-blocking socket; `ret_bound` gets the address it really has ("127.0.0.1:41233" for port
 * 0). A socket file that nobody listens on any more is replaced. */
int listen_open(const char *text, int *ret_fd, char ret_bound[LISTEN_TEXT_BYTES], struct err *reterr);

/* The socket that a service manager hands over (LISTEN_PID, LISTEN_FDS, as of sd_listen_fds(3)): 1:
 * `*ret_fd`, close-on-exec from now on; 0: there is none for this process. The variables are gone then, so
 * that no child believes them. To be called before any descriptor is opened. */
int listen_inherited(int *ret_fd, struct err *reterr);

/* Holds such a socket against the configured address, which it must be bound to (any port, if that is 0).
 * `ret_bound` as above. */
int listen_check(const char *text, int fd, char ret_bound[LISTEN_TEXT_BYTES], struct err *reterr);

/* Removes the socket file of a unix: address; does nothing for others. */
void listen_forget(const char *text);
