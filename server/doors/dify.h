/* The interface of Dify's sandbox: POST /v1/sandbox/run, GET /v1/sandbox/dependencies. */
#pragma once

#include "server/doors/door.h"

struct buf;

extern const struct door dify_door;

/* What is installed beside a language's own library, which is for the operator's images and policies to say.
 */
void dify_write_dependencies(struct buf *ret);
