/* An outer id for tests that make mounts: as an ordinary user this enters the namespaces in which those can
 * be made. */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "jail/base/err.h"
#include "jail/resources/idmap.h"

struct outer_id {
    struct idmap_pool *pool;
    uint32_t uid, gid;
};

static inline int outer_id_take(struct outer_id *ret)
{
    struct err err = {0};
    if (idmap_pool_new(1879048192u, 4, &ret->pool, &err) < 0 ||
        idmap_take(ret->pool, &ret->uid, &ret->gid) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return -1;
    }
    return 0;
}

static inline void outer_id_give_back(struct outer_id *id)
{
    idmap_pool_free(id->pool);
    id->pool = NULL;
}
