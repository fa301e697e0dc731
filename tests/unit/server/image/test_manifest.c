/* server/image/manifest.c: what is read of a layout, and what of a hostile one is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/format/digest.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/resources/tree.h"
#include "server/image/manifest.h"
#include "server/image/store.h"

struct fixture {
    char path[64];
    int layout;
    char image[SHA256_HEX], manifest[SHA256_HEX]; /* digests */
};

static void put(int at, const char *name, const char *content)
{
    unlinkat(at, name, 0);
    CLEANUP(fd_closep) int fd = openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    assert_int_equal(write(fd, content, strlen(content)), (ssize_t)strlen(content));
}

static void put_blob(const struct fixture *f, const char *content, char ret_hex[SHA256_HEX])
{
    char name[sizeof "blobs/sha256/" + SHA256_HEX];
    sha256_hex_of(content, strlen(content), ret_hex);
    snprintf(name, sizeof name, "blobs/sha256/%s", ret_hex);
    put(f->layout, name, content);
}

static void put_index(const struct fixture *f, const char *digest)
{
    char text[512];
    snprintf(text, sizeof text, "{\"schemaVersion\": 2, \"manifests\": [{\"digest\": \"%s\"}]}", digest);
    put(f->layout, "index.json", text);
}

static void put_image_in_layers(struct fixture *f, const char *image, const char *layers)
{
    char text[512], digest[SHA256_HEX + 8];
    put_blob(f, image, f->image);
    snprintf(text, sizeof text, "{\"config\": {\"digest\": \"sha256:%s\"}, \"layers\": %s}", f->image,
             layers);
    put_blob(f, text, f->manifest);
    snprintf(digest, sizeof digest, "sha256:%s", f->manifest);
    put_index(f, digest);
}

static void put_image(struct fixture *f, const char *image)
{
    put_image_in_layers(f, image, "[]");
}

static int make_layout(void **state)
{
    static struct fixture fixture;
    struct fixture *f = *state = &fixture;
    strcpy(f->path, "/tmp/immure-layout-XXXXXX");
    if (!mkdtemp(f->path)) {
        return -1;
    }
    f->layout = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (mkdirat(f->layout, "blobs", 0755) < 0 || mkdirat(f->layout, "blobs/sha256", 0755) < 0) {
        return -1;
    }
    put_image(f, "{\"config\": {\"Env\": [\"PATH=/bin\", \"no variable\", 7, \"A=b\"]}}");
    return 0;
}

static int remove_layout(void **state)
{
    struct fixture *f = *state;
    int r = tree_clear(f->layout);
    fd_closep(&f->layout);
    return r < 0 || rmdir(f->path) < 0 ? -1 : 0;
}

static void assert_refused(const struct fixture *f, const char *words)
{
    struct image_record record = {0};
    struct err err = {0};
    assert_true(image_manifest_read(f->layout, &record, &err) < 0);
    assert_int_equal(err.kind, ERR_INVALID);
    if (!strstr(err.text, words)) {
        fail_msg("\"%s\" is not in: %s", words, err.text);
    }
    image_record_clear(&record);
}

static void test_read(void **state)
{
    const struct fixture *f = *state;
    struct image_record record = {0};
    assert_int_equal(image_manifest_read(f->layout, &record, NULL), 0);
    assert_string_equal(record.digest + strlen("sha256:"), f->manifest);
    assert_int_equal(record.n_env, 2);
    assert_string_equal(record.env[0], "PATH=/bin");
    assert_string_equal(record.env[1], "A=b");
    image_record_clear(&record);
}

static void test_without_variables(void **state)
{
    struct fixture *f = *state;
    static const char *const images[] = {"{}", "{\"config\": null}", "{\"config\": {\"Env\": null}}", "[]",
                                         "{\"config\": {\"Env\": {\"a\": \"A=b\"}}}"};
    for (size_t i = 0; i < ARRAY_SIZE(images); i++) {
        struct image_record record = {0};
        put_image(f, images[i]);
        assert_int_equal(image_manifest_read(f->layout, &record, NULL), 0);
        assert_int_equal(record.n_env, 0);
        image_record_clear(&record);
    }
}

static void test_layers_are_as_many_as_the_image_knows(void **state)
{
    struct fixture *f = *state;
    struct image_record record = {0};
    static const char two[] = "{\"rootfs\": {\"diff_ids\": [\"sha256:1\", \"sha256:2\"]}}";
    put_image_in_layers(f, two, "[{}]");
    assert_refused(f, "its manifest lists 1 layers, its configuration 2");
    put_image_in_layers(f, two, "null");
    assert_refused(f, "its manifest lists 0 layers, its configuration 2");
    put_image_in_layers(f, "{\"rootfs\": {\"diff_ids\": {\"0\": \"sha256:1\"}}}", "[{}]");
    assert_refused(f, "its manifest lists 1 layers, its configuration 0");
    put_image_in_layers(f, two, "[{}, {}]");
    assert_int_equal(image_manifest_read(f->layout, &record, NULL), 0);
    image_record_clear(&record);
}

/* Nothing but a digest becomes part of a path. */
static void test_digests(void **state)
{
    const struct fixture *f = *state;
    static const char *const digests[] = {
        "",
        "sha256:",
        "sha256:../../index.json",
        "sha512:00",
        "sha256:00",
        "sha256:ABCDEF0000000000000000000000000000000000000000000000000000000000",
        "sha256:/000000000000000000000000000000000000000000000000000000000000000"};
    for (size_t i = 0; i < ARRAY_SIZE(digests); i++) {
        put_index(f, digests[i]);
        assert_refused(f, "names a blob by no SHA-256");
    }
    put(f->layout, "index.json", "{\"manifests\": [{\"digest\": 7}]}");
    assert_refused(f, "names a blob by no SHA-256");
    put(f->layout, "index.json", "{\"manifests\": []}");
    assert_refused(f, "names a blob by no SHA-256");
    char text[256];
    snprintf(text, sizeof text, "{\"manifests\": {\"0\": {\"digest\": \"sha256:%s\"}}}", f->manifest);
    put(f->layout, "index.json", text);
    assert_refused(f, "names a blob by no SHA-256");
    put_index(f, "sha256:0000000000000000000000000000000000000000000000000000000000000000");
    assert_refused(f, "No such file");
}

static void test_blobs_are_what_they_are_called(void **state)
{
    const struct fixture *f = *state;
    char name[sizeof "blobs/sha256/" + SHA256_HEX];
    snprintf(name, sizeof name, "blobs/sha256/%s", f->image);
    put(f->layout, name, "{\"config\": {\"Env\": [\"LD_PRELOAD=/x\"]}}");
    assert_refused(f, "has another digest");
    unlinkat(f->layout, name, 0);
    assert_int_equal(symlinkat("../../index.json", f->layout, name), 0);
    assert_refused(f, "Too many levels of symbolic links");
}

static void test_json_is_read_strictly(void **state)
{
    const struct fixture *f = *state;
    static const char *const texts[] = {"", "{", "{\"manifests\": [], \"manifests\": []}", "{} {}", "\xff"};
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        put(f->layout, "index.json", texts[i]);
        assert_refused(f, "the layout's index.json");
    }
    unlinkat(f->layout, "index.json", 0);
    assert_int_equal(mkfifoat(f->layout, "index.json", 0644), 0);
    assert_refused(f, "index.json");
}

static void test_files_have_a_size(void **state)
{
    const struct fixture *f = *state;
    CLEANUP(fd_closep) int fd = openat(f->layout, "index.json", O_WRONLY | O_CLOEXEC);
    assert_int_equal(ftruncate(fd, 64 << 20), 0);
    assert_refused(f, "File too large");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_layout, remove_layout)
    const struct CMUnitTest tests[] = {
        TEST(test_read),
        TEST(test_without_variables),
        TEST(test_layers_are_as_many_as_the_image_knows),
        TEST(test_digests),
        TEST(test_blobs_are_what_they_are_called),
        TEST(test_json_is_read_strictly),
        TEST(test_files_have_a_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
