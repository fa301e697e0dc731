/* struct pool: memory that lives until one call at the end; for structs built only to be packed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct pool {
    struct pool_block *newest;
    unsigned char *at; /* what the next items share, */
    size_t left;       /* of so many bytes */
    bool failed;       /* an allocation failed; nothing built from this pool may be used */
};

#define POOL_INIT ((struct pool){0})
/* Begins with an array of the caller's, aligned for anything and living longer, before it asks for memory. */
#define POOL_IN(array) ((struct pool){.at = (array), .left = sizeof(array)})

/* `n` zeroed items of `size` bytes. NULL where n is 0 or memory is out, which `failed` tells apart. */
void *pool_alloc(struct pool *pool, size_t n, size_t size);
void pool_free(struct pool *pool);
