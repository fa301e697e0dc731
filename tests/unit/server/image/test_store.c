/* server/image/store.c: names appear whole, go at once, and take no files from whoever has them locked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/resources/tree.h"
#include "server/image/store.h"

#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"

static char directory[64];

static int make_directory(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/immure-images-XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
    (void)state;
    CLEANUP(fd_closep) int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return tree_clear(fd) < 0 || rmdir(directory) < 0 ? -1 : 0;
}

static int lock(void)
{
    int fd = -1;
    assert_int_equal(image_store_lock(directory, &fd, NULL), 0);
    return fd;
}

/* An image whose record's source is `source`. */
static int publish(int store, const char *name, const char *source, bool replace, struct err *err)
{
    char text[64], digest[] = IMAGE_DIGEST_PREFIX ZEROS, form[] = "directory";
    snprintf(text, sizeof text, "%s", source);
    CLEANUP(fd_closep) int staging = -1;
    assert_int_equal(image_store_stage(store, &staging, err), 0);
    const struct image_record record = {
        .digest = digest, .source = text, .form = form, .bytes = 7, .files = 2};
    assert_int_equal(image_record_write(staging, &record, err), 0);
    assert_int_equal(mkdirat(staging, IMAGE_ROOT, 0), 0);
    return image_store_publish(store, staging, name, replace, err);
}

static void note(void *arg, const char *name, const struct image_record *record, const struct err *err)
{
    char *all = arg;
    size_t len = strlen(all);
    snprintf(all + len, 256 - len, "%s=%s ", name, record ? record->source : err->text);
}

static void assert_listed(const char *want)
{
    char all[256] = "";
    assert_int_equal(image_store_list(directory, note, all, NULL), 0);
    assert_string_equal(all, want);
}

static bool exists(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return access(path, F_OK) == 0;
}

static void test_publish_replace_remove(void **state)
{
    (void)state;
    struct err err = {0};
    bool in_use = true;
    CLEANUP(fd_closep) int store = lock();
    assert_int_equal(publish(store, "one", "first", false, &err), 0);
    assert_listed("one=first ");
    assert_true(publish(store, "one", "second", false, &err) < 0);
    assert_int_equal(err.kind, ERR_INVALID);
    assert_listed("one=first ");
    image_store_unstage(store);
    assert_int_equal(publish(store, "one", "a \"second\"\n", true, NULL), 0);
    assert_listed("one=a \"second\"\n ");
    assert_false(exists(".staging"));
    assert_int_equal(image_store_remove(store, "one", &in_use, NULL), 0);
    assert_false(in_use);
    assert_listed("");
    err_clear(&err);
    assert_true(image_store_remove(store, "one", &in_use, &err) < 0);
    assert_true(image_store_remove(store, "../one", &in_use, NULL) < 0);
    assert_string_equal(err.text, "there is no such image");
}

static void test_what_is_in_use_stays(void **state)
{
    (void)state;
    bool in_use = false;
    CLEANUP(fd_closep) int store = lock();
    assert_int_equal(publish(store, "one", "x", false, NULL), 0);
    CLEANUP(fd_closep) int job = image_open_below(store, "one", O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(job, LOCK_SH), 0);
    assert_int_equal(image_store_remove(store, "one", &in_use, NULL), 0);
    assert_true(in_use);
    assert_listed("");
    assert_int_equal(faccessat(job, IMAGE_ROOT, F_OK, 0), 0);
    /* Swept by whoever comes next, and not before the job has gone. */
    fd_closep(&store);
    store = lock();
    assert_int_equal(faccessat(job, IMAGE_ROOT, F_OK, 0), 0);
    fd_closep(&job);
    fd_closep(&store);
    store = lock();
    CLEANUP(dir_closep) DIR *dir = opendir(directory);
    for (const struct dirent *entry; (entry = readdir(dir));) {
        assert_true(strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0);
    }
}

static mode_t mode_of(const char *name)
{
    char path[128];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 07777;
}

/* Whatever the operator's umask is. */
static void test_only_the_owner_gets_into_what_is_staged(void **state)
{
    (void)state;
    CLEANUP(fd_closep) int store = lock();
    CLEANUP(fd_closep) int staging = -1;
    mode_t before = umask(0);
    assert_int_equal(image_store_stage(store, &staging, NULL), 0);
    umask(before);
    assert_int_equal(mode_of(".staging"), 0700);
    before = umask(0077);
    assert_int_equal(image_store_publish(store, staging, "one", false, NULL), 0);
    umask(before);
    assert_int_equal(mode_of("one"), 0755);
}

/* An import that ended between its two renames: what it has replaced lies in the staging directory. */
static void test_a_crash_keeps_what_is_in_use(void **state)
{
    (void)state;
    CLEANUP(fd_closep) int store = lock();
    assert_int_equal(publish(store, "one", "x", false, NULL), 0);
    CLEANUP(fd_closep) int job = image_open_below(store, "one", O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(job, LOCK_SH), 0);
    assert_int_equal(renameat(store, "one", store, ".staging"), 0);
    fd_closep(&store);
    store = lock();
    assert_int_equal(faccessat(job, IMAGE_ROOT, F_OK, 0), 0);
    assert_int_equal(publish(store, "one", "y", false, NULL), 0);
    assert_int_equal(faccessat(job, IMAGE_ROOT, F_OK, 0), 0);
    assert_listed("one=y ");
}

static void test_a_crash(void **state)
{
    (void)state;
    CLEANUP(fd_closep) int store = lock();
    CLEANUP(fd_closep) int staging = -1;
    assert_int_equal(image_store_stage(store, &staging, NULL), 0);
    assert_int_equal(mkdirat(staging, "half", 0), 0);
    assert_listed("");
    assert_true(exists(".staging"));
    fd_closep(&store);
    store = lock();
    assert_false(exists(".staging"));
}

static void test_links_are_no_images(void **state)
{
    (void)state;
    CLEANUP(fd_closep) int store = lock();
    assert_int_equal(publish(store, "one", "x", false, NULL), 0);
    assert_int_equal(symlinkat("one", store, "two"), 0);
    assert_listed("one=x ");
    assert_int_equal(image_open_below(store, "two", O_RDONLY | O_DIRECTORY), -ELOOP);
    assert_int_equal(image_open_below(store, "../", O_RDONLY | O_DIRECTORY), -EXDEV);
}

static void test_broken_records(void **state)
{
    (void)state;
#define NUMBERS "\"imported_ms\": 1, \"bytes\": 1, \"files\": 1"
#define OTHERS  "\"source\": \"s\", \"form\": \"directory\", " NUMBERS
    static const char *const texts[] = {
        "",
        "{",
        "[]",
        "{}",
        "{\"digest\": \"\", " OTHERS "}",
        "{\"digest\": 1, " OTHERS ", \"env\": []}",
        "{\"digest\": \"\", " OTHERS ", \"env\": [1]}",
        "{\"digest\": \"sha256:1\", " OTHERS ", \"env\": []}",
        "{\"digest\": \"sha512:" ZEROS "\", " OTHERS ", \"env\": []}",
        "{\"digest\": \"sha256:../" ZEROS "\", " OTHERS ", \"env\": []}",
        "{\"digest\": \"\", \"source\": \"s\", \"form\": \"\\u001b[2J\", " NUMBERS ", \"env\": []}",
        "{\"digest\": \"\", " OTHERS ", \"env\": {}} x"};
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        CLEANUP(fd_closep) int store = lock();
        CLEANUP(fd_closep) int staging = -1;
        assert_int_equal(image_store_stage(store, &staging, NULL), 0);
        CLEANUP(fd_closep) int file = openat(staging, "image.json", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        assert_int_equal(write(file, texts[i], strlen(texts[i])), (ssize_t)strlen(texts[i]));
        struct image_record record = {0};
        struct err err = {0};
        assert_true(image_record_read(staging, &record, &err) < 0);
        assert_true(err.text[0] != '\0');
    }
}

static void test_environment(void **state)
{
    (void)state;
    static const char *const taken[] = {"A=", "_b=1", "PATH=/x=y"}, *const left[] = {"",    "=",    "A",
                                                                                     "1A=", "A B=", "A-B=1"};
    struct image_record record = {0};
    for (size_t i = 0; i < ARRAY_SIZE(taken); i++) {
        assert_int_equal(image_record_add_env(&record, taken[i], NULL), 0);
    }
    for (size_t i = 0; i < ARRAY_SIZE(left); i++) {
        assert_int_equal(image_record_add_env(&record, left[i], NULL), 0);
    }
    assert_int_equal(record.n_env, ARRAY_SIZE(taken));
    int r = 0;
    for (size_t i = 0; r == 0 && i < 2 * IMAGE_ENV_MAX; i++) {
        r = image_record_add_env(&record, "A=", NULL);
    }
    assert_true(r < 0);
    assert_int_equal(record.n_env, IMAGE_ENV_MAX);
    image_record_clear(&record);
    CLEANUP(freep) char *large = malloc(IMAGE_ENV_BYTES_MAX + 2);
    memset(large, 'x', IMAGE_ENV_BYTES_MAX + 1);
    large[1] = '=';
    large[IMAGE_ENV_BYTES_MAX + 1] = '\0';
    assert_true(image_record_add_env(&record, large, NULL) < 0);
    image_record_clear(&record);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_directory, remove_directory)
    const struct CMUnitTest tests[] = {
        TEST(test_publish_replace_remove),
        TEST(test_what_is_in_use_stays),
        TEST(test_only_the_owner_gets_into_what_is_staged),
        TEST(test_a_crash),
        TEST(test_a_crash_keeps_what_is_in_use),
        TEST(test_links_are_no_images),
        TEST(test_broken_records),
        cmocka_unit_test(test_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
