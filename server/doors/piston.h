/* Piston's interface, version 2, for clients that speak it: GET /api/v2/runtimes, POST /api/v2/execute. */
#pragma once

#include "server/doors/door.h"

struct buf;
struct runtime_config;

extern const struct door piston_door;

/* Appends a row of the list; the caller has opened it. */
void piston_write_runtime(const struct runtime_config *runtime, struct buf *ret);
