/* Encoded plans changed so that they stay well-formed: step by step, not byte by byte. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Changes an encoded plan; bytes that are none are changed as bytes. Returns the new size. */
size_t plan_mutate(uint8_t *data, size_t size, size_t max_size, uint64_t *series);
