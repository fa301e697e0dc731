/* Memory freed all at once. Runs wherever messages are encoded; a pool belongs to one call and never outlives
 * it. */
#include "config/format/pool.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Small items share a block of this size. */
#define SHARED_BYTES 4096

struct pool_block {
    struct pool_block *older;
    alignas(max_align_t) unsigned char data[];
};

static unsigned char *new_block(struct pool *pool, size_t bytes)
{
    struct pool_block *block = malloc(sizeof *block + bytes);
    if (!block) {
        pool->failed = true;
        return NULL;
    }
    block->older = pool->newest;
    pool->newest = block;
    return block->data;
}

void *pool_alloc(struct pool *pool, size_t n, size_t size)
{
    size_t bytes;
    if (n == 0) {
        return NULL;
    }
    if (__builtin_mul_overflow(n, size, &bytes) || bytes > SIZE_MAX / 2) {
        pool->failed = true;
        return NULL;
    }
    bytes = (bytes + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
    if (bytes > SHARED_BYTES) {
        unsigned char *own = new_block(pool, bytes);
        return own ? memset(own, 0, bytes) : NULL;
    }
    if (bytes > pool->left) {
        pool->at = new_block(pool, SHARED_BYTES);
        pool->left = pool->at ? SHARED_BYTES : 0;
    }
    if (!pool->at) {
        return NULL;
    }
    unsigned char *item = pool->at;
    pool->at += bytes;
    pool->left -= bytes;
    return memset(item, 0, bytes);
}

void pool_free(struct pool *pool)
{
    while (pool->newest) {
        struct pool_block *block = pool->newest;
        pool->newest = block->older;
        free(block);
    }
}
