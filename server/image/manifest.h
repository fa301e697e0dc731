/* What an OCI layout says of the image in it. */
#pragma once

struct err;
struct image_record;

/* Fills `digest` and `env` of the record from the first manifest of the layout's index. The blobs are held
 * against their digests. */
int image_manifest_read(int layout, struct image_record *record, struct err *reterr);
