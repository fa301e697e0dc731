/* struct relay: messages of the Model Context Protocol from a stream of lines to a server's POST /mcp, and
 * its answers back as lines. */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

struct err;
struct listen_address;
struct relay;

#define RELAY_CALLS_MAX 128

struct relay_options {
    const struct listen_address *server;
    const char *key;
    int out_fd; /* where lines of JSON go */
};

int relay_new(const struct relay_options *options, struct relay **ret, struct err *reterr);
/* Hangs up on every call that runs, which ends its job. Takes NULL. */
void relay_free(struct relay *relay);

/* Takes one line without its line feed. What is no message is answered at once. */
void relay_take(struct relay *relay, const char *line, size_t size);

size_t relay_calls(const struct relay *relay);
/* False once nobody reads the lines any more. */
bool relay_is_heard(const struct relay *relay);

/* Around each poll(2): what to wait for, at most RELAY_CALLS_MAX; what has happened. */
size_t relay_poll(const struct relay *relay, struct pollfd fds[RELAY_CALLS_MAX]);
void relay_run(struct relay *relay, const struct pollfd *fds, size_t n);

/* A connection to the server, or -errno. */
int relay_connect(const struct listen_address *address);
