/* multipart/form-data (RFC 7578), as callers send files: read in place, strictly, within bounds. */
#pragma once

#include <stddef.h>

struct err;

#define MULTIPART_BOUNDARY_BYTES 71 /* RFC 2046: 70 characters, and the NUL */
#define MULTIPART_NAME_BYTES     4096
#define MULTIPART_PARTS_MAX      256u

struct multipart {
    char boundary[MULTIPART_BOUNDARY_BYTES];
    const char *at, *end; /* of the body, which stays the caller's */
    size_t n_parts;
};

struct multipart_part {
    char name[MULTIPART_NAME_BYTES];     /* of its field */
    char filename[MULTIPART_NAME_BYTES]; /* "": it is no file */
    const char *data;                    /* in the body */
    size_t size;
};

/* `content_type` is the header's value, or NULL. ERR_INVALID where it is another type or has no boundary. */
int multipart_begin(struct multipart *ret, const char *content_type, const char *body, size_t size,
                    struct err *reterr);
/* The next part. 1: there is one; 0: the body has ended as it should; ERR_INVALID: it is malformed. Names are
 * UTF-8 without control characters. */
int multipart_next(struct multipart *multipart, struct multipart_part *ret, struct err *reterr);
