/* Images: what `immure image` itself reads, of the layout that a foreign archive has become, and of the
 * record that it keeps of it. The first byte says which text the rest is: see `readers`. All else in the
 * layout is as it should be, so that each text alone decides what is taken: exactly what is here read again,
 * and in another way. What comes of it is written, and read back the same. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/format/digest.h"
#include "config/format/json.h"
#include "config/message/job.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/resources/tree.h"
#include "server/image/manifest.h"
#include "server/image/store.h"
#include "tests/fuzz/fuzz.h"

#define BLOBS      "blobs/sha256/"
#define BLOB_BYTES (sizeof BLOBS + SHA256_HEX)
/* Of the blobs that every layout has. Beside them lies one that is not what it is called. */
#define GOOD_IMAGE "{\"config\":{\"Env\":[\"PATH=/bin\",\"no variable\",7]}}"
#define WRONG_NAME "1111111111111111111111111111111111111111111111111111111111111111"

static struct {
    char path[64];
    int fd;
    char image[SHA256_HEX], manifest[SHA256_HEX]; /* digests of the good ones */
} layout = {.fd = -1};

static void put(const char *name, const void *data, size_t size)
{
    CLEANUP(fd_closep)
    int fd = openat(layout.fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    REQUIRE(fd >= 0 && io_write_full(fd, data, size) == 0);
}

static void blob_path(const char *hex, char ret[BLOB_BYTES])
{
    snprintf(ret, BLOB_BYTES, BLOBS "%s", hex);
}

static void put_blob(const void *data, size_t size, char ret_hex[SHA256_HEX])
{
    char path[BLOB_BYTES];
    sha256_hex_of(data, size, ret_hex);
    blob_path(ret_hex, path);
    put(path, data, size);
}

static void remove_blob(const char *hex)
{
    char path[BLOB_BYTES];
    blob_path(hex, path);
    REQUIRE(strcmp(hex, layout.image) == 0 || strcmp(hex, layout.manifest) == 0 ||
            unlinkat(layout.fd, path, 0) == 0);
}

static void put_manifest(const char *image, char ret_hex[SHA256_HEX])
{
    char text[128];
    int len = snprintf(text, sizeof text, "{\"config\":{\"digest\":\"sha256:%s\"}}", image);
    put_blob(text, (size_t)len, ret_hex);
}

static void put_index(const char *manifest)
{
    char text[128];
    int len = snprintf(text, sizeof text, "{\"manifests\":[{\"digest\":\"sha256:%s\"}]}", manifest);
    put("index.json", text, (size_t)len);
}

static void remove_layout(void)
{
    tree_clear(layout.fd);
    fd_closep(&layout.fd);
    rmdir(layout.path);
}

static void make_layout(void)
{
    struct stat st;
    snprintf(layout.path, sizeof layout.path, "%s/immure-fuzz-XXXXXX",
             stat("/dev/shm", &st) == 0 && access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    REQUIRE(mkdtemp(layout.path));
    layout.fd = open(layout.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    atexit(remove_layout);
    REQUIRE(mkdirat(layout.fd, "blobs", 0700) == 0 && mkdirat(layout.fd, "blobs/sha256", 0700) == 0);
    put_blob(GOOD_IMAGE, strlen(GOOD_IMAGE), layout.image);
    put_manifest(layout.image, layout.manifest);
    put(BLOBS WRONG_NAME, "{}", 2);
}

/* ---- What must hold of what comes out ---- */

static bool is_plain(const char *text)
{
    while (*text >= ' ' && *text != 0x7f) {
        text++;
    }
    return *text == '\0';
}

static bool is_variable(const char *text)
{
    const char *at = text;
    while ((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || *at == '_' ||
           (at > text && *at >= '0' && *at <= '9')) {
        at++;
    }
    return at > text && *at == '=';
}

static void require_digest(const char *digest)
{
    unsigned char hash[SHA256_BYTES];
    char hex[SHA256_HEX];
    REQUIRE(strncmp(digest, "sha256:", 7) == 0 && sha256_from_hex(digest + 7, hash) == 0);
    sha256_to_hex(hash, hex);
    REQUIRE(strcmp(hex, digest + 7) == 0);
}

/* No deeper than a document may be: brackets outside of strings, in a text that has been accepted. */
static void require_depth(const uint8_t *text, size_t size)
{
    size_t depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < size; i++) {
        bool escaped = quoted && text[i] == '\\';
        quoted ^= text[i] == '"';
        depth += !quoted && (text[i] == '{' || text[i] == '[');
        depth -= !quoted && (text[i] == '}' || text[i] == ']');
        i += escaped;
        REQUIRE(depth <= JSON_DEPTH_MAX);
    }
}

static void require_environment(const struct image_record *record)
{
    size_t bytes = 0;
    REQUIRE(record->n_env <= IMAGE_ENV_MAX);
    for (size_t i = 0; i < record->n_env; i++) {
        REQUIRE(is_variable(record->env[i]));
        bytes += strlen(record->env[i]);
    }
    REQUIRE(bytes <= IMAGE_ENV_BYTES_MAX);
}

static void require_equal(const struct image_record *a, const struct image_record *b)
{
    REQUIRE(strcmp(a->digest, b->digest) == 0 && strcmp(a->source, b->source) == 0);
    REQUIRE(strcmp(a->form, b->form) == 0 && a->imported_ms == b->imported_ms);
    REQUIRE(a->bytes == b->bytes && a->files == b->files && a->n_env == b->n_env);
    for (size_t i = 0; i < a->n_env; i++) {
        REQUIRE(strcmp(a->env[i], b->env[i]) == 0);
    }
}

static void require_refusal(int r, const struct err *err)
{
    REQUIRE(r < 0 && err->text[0] != '\0' && is_plain(err->text) && is_plain(err->item));
    REQUIRE(err->kind == ERR_INVALID || err->kind == ERR_HOST);
}

static void require_read_back(const struct image_record *record)
{
    CLEANUP(image_record_clear) struct image_record again = {0};
    require_environment(record);
    unlinkat(layout.fd, "image.json", 0);
    REQUIRE(image_record_write(layout.fd, record, NULL) == 0);
    REQUIRE(image_record_read(layout.fd, &again, NULL) == 0);
    require_equal(record, &again);
}

/* ---- The layout ---- */

/* Reads the layout, which is to be accepted or not, with that manifest. -> `ret`, whole, where it is */
static void read_layout(bool acceptable, const char *manifest, struct image_record *ret)
{
    struct err err = {0};
    int r = image_manifest_read(layout.fd, ret, &err);
    if (!acceptable) {
        require_refusal(r, &err);
        REQUIRE(err.kind == ERR_INVALID && !ret->digest);
        return;
    }
    REQUIRE(r == 0 && !ret->source && !ret->form && ret->imported_ms + ret->bytes + ret->files == 0);
    require_digest(ret->digest);
    REQUIRE(strcmp(ret->digest + 7, manifest) == 0);
    ret->source = strdup("a \"path\"\n");
    ret->form = strdup("oci-layout");
    require_read_back(ret);
}

/* The digits of a digest that stands there; NULL: none that a blob could have. */
static const char *digits_of(const struct json *descriptor)
{
    const char *digest = json_string(json_get(descriptor, "digest"));
    return digest && strncmp(digest, "sha256:", 7) == 0 ? digest + 7 : NULL;
}

static bool is_same(const char *digits, const char *hex)
{
    return digits && strcmp(digits, hex) == 0;
}

static void try_index(const struct json *root, const uint8_t *data, size_t size)
{
    CLEANUP(image_record_clear) struct image_record record = {0};
    const struct json *manifests = json_get(root, "manifests");
    bool listed = json_type_of(manifests) == JSON_ARRAY;
    put("index.json", data, size);
    read_layout(listed && is_same(digits_of(json_first(manifests)), layout.manifest), layout.manifest,
                &record);
}

/* The good configuration lays nothing over nothing, and so does the good manifest. */
static bool has_layers(const struct json *array)
{
    return json_type_of(array) == JSON_ARRAY && json_first(array);
}

/* Any blob may be the configuration: the manifest has no variables. */
static void try_manifest(const struct json *root, const uint8_t *data, size_t size)
{
    CLEANUP(image_record_clear) struct image_record record = {0};
    const char *digits = digits_of(json_get(root, "config"));
    bool fits = !has_layers(json_get(root, "layers"));
    bool has_variables = fits && is_same(digits, layout.image);
    char hex[SHA256_HEX];
    put_blob(data, size, hex);
    put_index(hex);
    read_layout(has_variables || (fits && is_same(digits, layout.manifest)), hex, &record);
    REQUIRE(record.n_env == has_variables);
    remove_blob(hex);
}

static void require_variables(const struct json *env, const struct image_record *record)
{
    size_t n = 0;
    for (const struct json *item = json_first(env); item; item = json_next(item)) {
        const char *text = json_string(item);
        if (text && is_variable(text)) {
            REQUIRE(n < record->n_env && strcmp(record->env[n], text) == 0);
            n++;
        }
    }
    REQUIRE(n == record->n_env);
}

static bool is_too_much(const struct json *env)
{
    size_t n = 0, bytes = 0;
    for (const struct json *item = json_first(env); item; item = json_next(item)) {
        const char *text = json_string(item);
        bool taken = text && is_variable(text);
        n += taken;
        bytes += taken ? strlen(text) : 0;
    }
    return n > IMAGE_ENV_MAX || bytes > IMAGE_ENV_BYTES_MAX;
}

/* Then the same under its name, but not the same; and the same, but behind a link. */
static void try_image(const struct json *root, const uint8_t *data, size_t size)
{
    CLEANUP(image_record_clear) struct image_record record = {0}, none = {0};
    const struct json *env = json_get(json_get(root, "config"), "Env");
    CLEANUP(buf_free) struct buf longer = BUF_INIT;
    char hex[SHA256_HEX], manifest[SHA256_HEX], path[BLOB_BYTES];
    env = json_type_of(env) == JSON_ARRAY ? env : NULL;
    put_blob(data, size, hex);
    put_manifest(hex, manifest);
    put_index(manifest);
    bool fits = !has_layers(json_get(json_get(root, "rootfs"), "diff_ids"));
    bool acceptable = root && fits && !is_too_much(env);
    read_layout(acceptable, manifest, &record);
    if (acceptable) {
        require_variables(env, &record);
    }
    if (strcmp(hex, layout.image) != 0 && strcmp(hex, layout.manifest) != 0) {
        blob_path(hex, path);
        buf_append(&longer, data, size);
        buf_putc(&longer, ' ');
        put(path, longer.data, longer.len);
        read_layout(false, NULL, &none);
        put(BLOBS "moved", data, size);
        REQUIRE(unlinkat(layout.fd, path, 0) == 0 && symlinkat("moved", layout.fd, path) == 0);
        read_layout(false, NULL, &none);
    }
    remove_blob(hex);
    remove_blob(manifest);
}

/* ---- What is kept ---- */

static void try_record(const struct json *root, const uint8_t *data, size_t size)
{
    CLEANUP(image_record_clear) struct image_record record = {0};
    struct err err = {0};
    unlinkat(layout.fd, "image.json", 0);
    put("image.json", data, size);
    int r = image_record_read(layout.fd, &record, &err);
    if (r < 0) {
        require_refusal(r, &err);
        REQUIRE(!record.digest && !record.source && !record.form && !record.env);
        return;
    }
    REQUIRE(root && is_plain(record.form));
    if (record.digest[0]) {
        require_digest(record.digest);
    }
    require_variables(json_get(root, "env"), &record);
    require_read_back(&record);
}

/* What a name in the directory of images, or in a request, may be: never a way to elsewhere. */
static void try_name(const uint8_t *data, size_t size)
{
    CLEANUP(freep) char *name = strndup((const char *)data, size);
    if (name && image_name_is_valid(name)) {
        REQUIRE(!strchr(name, '/') && name[0] != '.' && name[0] != '-' && is_plain(name));
        REQUIRE(strlen(name) > 0 && strlen(name) <= 64);
    }
}

static const struct {
    uint8_t letter;
    void (*run)(const struct json *root, const uint8_t *data, size_t size);
} readers[] = {{'i', try_index}, {'m', try_manifest}, {'c', try_image}, {'r', try_record}};

void fuzz_one(const uint8_t *data, size_t size)
{
    struct json_doc *doc = NULL;
    if (layout.fd < 0) {
        make_layout();
    }
    if (size == 0) {
        return;
    }
    const struct json *root =
        json_parse((const char *)data + 1, size - 1, &doc, NULL) == 0 ? json_root(doc) : NULL;
    if (root) {
        require_depth(data + 1, size - 1);
    }
    if (data[0] == 'n') {
        try_name(data + 1, size - 1);
    }
    for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
        if (data[0] == readers[i].letter) {
            readers[i].run(root, data + 1, size - 1);
        }
    }
    json_free(doc);
}
