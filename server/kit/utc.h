/* A moment as people and other programs read it. Runs in every process. */
#pragma once

#include <stdint.h>

#define UTC_BYTES 40

/* RFC 3339, in UTC, with milliseconds: 2026-01-31T09:30:00.125Z. */
void utc_write(uint64_t since_epoch_ms, char ret[static UTC_BYTES]);
