/* An archive, a layout or a directory as an image that jobs can run in. */
#pragma once

#include <stdbool.h>

#include "server/image/tree.h"

struct err;
struct image_record;

struct image_import {
    const char *directory; /* of images */
    const char *name;
    const char *source;
    struct image_limits limits;
    bool replace;
};

/* All of it, or nothing. `ret` and `ret_counts` tell what has come of it. */
int image_import(const struct image_import *import, struct image_record *ret, struct image_counts *ret_counts,
                 struct err *reterr);
