/* The certificates that HTTPS servers are checked against. */
#pragma once

struct buf;
struct err;

#define CERTIFICATES_BYTES_MAX (4u << 20) /* of a file of them */

/* Reads `own`, which the configuration's `field` names; where that is empty, the system's. None at all is no
 * error: every HTTPS server is refused then. */
int certificates_read(const char *own, const char *field, struct buf *ret, struct err *reterr);
