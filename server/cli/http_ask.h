/* One question to a server over HTTP, for commands that talk to one. Blocks until it is answered. */
#pragma once

struct buf;
struct err;
struct listen_address;

struct http_question {
    const struct listen_address *server;
    const char *key; /* "": none */
    const char *method, *path;
    const struct buf *body; /* JSON; NULL: none */
};

/* Appends the reply's body. ERR_UNAVAILABLE where there is no answer that could be understood. */
int http_ask(const struct http_question *question, unsigned *ret_status, struct buf *ret, struct err *reterr);
