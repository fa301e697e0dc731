/* Memory freed all at once. Runs wherever messages are encoded; a pool belongs to one call and never outlives
 * it. */
#include "config/format/pool.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>

struct pool_block {
    struct pool_block *older;
    alignas(max_align_t) unsigned char data[];
};

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
    struct pool_block *block = calloc(1, sizeof *block + bytes);
    if (!block) {
        pool->failed = true;
        return NULL;
    }
    block->older = pool->newest;
    pool->newest = block;
    return block->data;
}

void pool_free(struct pool *pool)
{
    while (pool->newest) {
        struct pool_block *block = pool->newest;
        pool->newest = block->older;
        free(block);
    }
}
