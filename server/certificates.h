/* The certificates that HTTPS servers are checked against. */
#pragma once

struct buf;
struct err;

/* Reads `own`, which the configuration's `field` names; where that is empty, the system's. None at all is no
 * error: every HTTPS server is refused then. */
int certificates_read(const char *own, const char *field, struct buf *ret, struct err *reterr);
