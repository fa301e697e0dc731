/* struct pool: memory that lives until one call at the end; for structs built only to be packed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct pool {
    struct pool_block *newest;
    bool failed; /* an allocation failed; nothing built from this pool may be used */
};

#define POOL_INIT ((struct pool){0})

/* `n` zeroed items of `size` bytes. NULL where n is 0 or memory is out, which `failed` tells apart. */
void *pool_alloc(struct pool *pool, size_t n, size_t size);
void pool_free(struct pool *pool);
