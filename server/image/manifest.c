/* From an OCI layout to what is kept of its configuration: the digest and the variables. Runs in `immure
 * image`, over files that the unpacking jail has written from a hostile archive: of bounded size, opened
 * beneath the layout and through no link, and read as strictly as a request. */
#include "server/image/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/digest.h"
#include "config/format/json.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "server/image/store.h"

#define BLOB_BYTES_MAX (4u << 20)

static void doc_freep(struct json_doc **doc)
{
    json_free(*doc);
}

static int read_json(int layout, const char *path, struct buf *text, struct json_doc **ret,
                     struct err *reterr)
{
    CLEANUP(fd_closep) int fd = image_open_below(layout, path, O_RDONLY | O_NONBLOCK);
    int r = fd < 0 ? fd : io_read_fd(fd, BLOB_BYTES_MAX, text);
    if (r < 0) {
        return err_set(reterr, ERR_INVALID, -r, NULL, "the layout's %.100s cannot be read: %s", path,
                       strerror(-r));
    }
    r = json_parse(text->data ? text->data : "", text->len, ret, reterr);
    return r < 0 ? err_wrap(reterr, "the layout's %.100s", path) : 0;
}

/* Of an object, the members would do as well. */
static const struct json *first_of_array(const struct json *value)
{
    return json_type_of(value) == JSON_ARRAY ? json_first(value) : NULL;
}

static int read_blob(int layout, const struct json *descriptor, struct json_doc **ret, struct err *reterr)
{
    const char *digest = json_string(json_get(descriptor, "digest"));
    if (!digest || !image_digest_is_valid(digest)) { /* nothing else becomes part of a path */
        return err_set(reterr, ERR_INVALID, EINVAL, NULL, "the layout names a blob by no SHA-256");
    }
    const char *hex = digest + strlen(IMAGE_DIGEST_PREFIX);
    char path[sizeof "blobs/sha256/" + SHA256_HEX], found[SHA256_HEX];
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    CLEANUP(doc_freep) struct json_doc *doc = NULL;
    snprintf(path, sizeof path, "blobs/sha256/%s", hex);
    int r = read_json(layout, path, &text, &doc, reterr);
    if (r < 0) {
        return r;
    }
    sha256_hex_of(text.data ? text.data : "", text.len, found);
    if (strcmp(found, hex) != 0) {
        return err_set(reterr, ERR_INVALID, EBADMSG, NULL, "the blob %s has another digest", digest);
    }
    *ret = TAKE_PTR(doc);
    return 0;
}

static int read_environment(const struct json *image, struct image_record *record, struct err *reterr)
{
    const struct json *env = json_get(json_get(image, "config"), "Env");
    int r = 0;
    for (const struct json *item = first_of_array(env); r == 0 && item; item = json_next(item)) {
        const char *variable = json_string(item);
        r = variable ? image_record_add_env(record, variable, reterr) : 0;
    }
    return r;
}

static size_t count(const struct json *array)
{
    size_t n = 0;
    for (const struct json *item = first_of_array(array); item; item = json_next(item)) {
        n++;
    }
    return n;
}

/* umoci relies on it. */
static int check_layers(const struct json *manifest, const struct json *image, struct err *reterr)
{
    size_t listed = count(json_get(manifest, "layers"));
    size_t known = count(json_get(json_get(image, "rootfs"), "diff_ids"));
    return listed == known ? 0
                           : err_set(reterr, ERR_INVALID, EINVAL, NULL,
                                     "its manifest lists %zu layers, its configuration %zu", listed, known);
}

int image_manifest_read(int layout, struct image_record *record, struct err *reterr)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    CLEANUP(doc_freep) struct json_doc *index = NULL;
    CLEANUP(doc_freep) struct json_doc *manifest = NULL;
    CLEANUP(doc_freep) struct json_doc *image = NULL;
    int r = read_json(layout, "index.json", &text, &index, reterr);
    const struct json *first = r < 0 ? NULL : first_of_array(json_get(json_root(index), "manifests"));
    r = r < 0 ? r : read_blob(layout, first, &manifest, reterr);
    r = r < 0 ? r : read_blob(layout, json_get(json_root(manifest), "config"), &image, reterr);
    r = r < 0 ? r : check_layers(json_root(manifest), json_root(image), reterr);
    r = r < 0 ? r : read_environment(json_root(image), record, reterr);
    if (r < 0) {
        return r;
    }
    record->digest = strdup(json_string(json_get(first, "digest")));
    return record->digest ? 0 : err_errno(reterr, ENOMEM, "reading a manifest");
}
