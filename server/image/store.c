/* The directory of images. Runs in `immure image`, and the reading of one record in the warden too.
 *
 * What must hold: a name in it is a whole image, whatever has crashed; nothing is removed that a job runs in;
 * nothing is reached but by descriptor and through no link. */
#include "server/image/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/format/digest.h"
#include "config/format/json.h"
#include "config/message/job.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/resources/tree.h"
#include "server/image/tree.h"
#include "server/kit/json_out.h"

#define RECORD           "image.json"
#define RECORD_BYTES_MAX (1u << 20)
#define STAGING          ".staging"
#define REMOVED          ".removed-"

/* ---- Records ---- */

static const char *const forms[] = {"oci-layout", "oci-archive", "docker-archive", "directory"};

bool image_digest_is_valid(const char *text)
{
    size_t prefix = strlen(IMAGE_DIGEST_PREFIX);
    return strncmp(text, IMAGE_DIGEST_PREFIX, prefix) == 0 && strlen(text) == prefix + SHA256_HEX - 1 &&
           strspn(text + prefix, "0123456789abcdef") == SHA256_HEX - 1;
}

static bool form_is_valid(const char *text)
{
    bool found = false;
    for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
        found = found || strcmp(text, forms[i]) == 0;
    }
    return found;
}

void image_record_clear(struct image_record *record)
{
    free(record->digest);
    free(record->source);
    free(record->form);
    for (size_t i = 0; i < record->n_env; i++) {
        free(record->env[i]);
    }
    free(record->env);
    *record = (struct image_record){0};
}

static bool is_variable(const char *text)
{
    size_t len = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");
    return len > 0 && text[len] == '=' && (text[0] < '0' || text[0] > '9');
}

int image_record_add_env(struct image_record *record, const char *variable, struct err *reterr)
{
    size_t bytes = strlen(variable);
    if (!is_variable(variable)) {
        return 0;
    }
    for (size_t i = 0; i < record->n_env; i++) {
        bytes += strlen(record->env[i]);
    }
    if (record->n_env == IMAGE_ENV_MAX || bytes > IMAGE_ENV_BYTES_MAX) {
        return err_set(reterr, ERR_INVALID, E2BIG, NULL,
                       "its environment is more than %u variables or %u bytes", IMAGE_ENV_MAX,
                       IMAGE_ENV_BYTES_MAX);
    }
    char **larger = reallocarray(record->env, record->n_env + 1, sizeof *larger);
    if (!larger) {
        return err_errno(reterr, ENOMEM, "reading an image's environment");
    }
    record->env = larger;
    record->env[record->n_env] = strdup(variable);
    if (!record->env[record->n_env]) {
        return err_errno(reterr, ENOMEM, "reading an image's environment");
    }
    record->n_env++;
    return 0;
}

int image_open_below(int dirfd, const char *name, uint64_t flags)
{
    struct open_how how = {.flags = flags | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    long fd = syscall(SYS_openat2, dirfd, name, &how, sizeof how);
    return fd < 0 ? -errno : (int)fd;
}

static int broken(struct err *reterr, const char *what)
{
    return err_set(reterr, ERR_HOST, EBADMSG, NULL, "its " RECORD " %s", what);
}

static int copy_text(const struct json *root, const char *key, char **ret)
{
    const char *text = json_string(json_get(root, key));
    *ret = text ? strdup(text) : NULL;
    return *ret ? 0 : -EBADMSG;
}

static int record_from_json(const struct json *root, struct image_record *ret, struct err *reterr)
{
    const struct json *env = json_get(root, "env");
    if (copy_text(root, "digest", &ret->digest) < 0 || copy_text(root, "source", &ret->source) < 0 ||
        copy_text(root, "form", &ret->form) < 0 || json_type_of(env) != JSON_ARRAY ||
        !json_u64(json_get(root, "imported_ms"), &ret->imported_ms) ||
        !json_u64(json_get(root, "bytes"), &ret->bytes) || !json_u64(json_get(root, "files"), &ret->files)) {
        return broken(reterr, "lacks a field");
    }
    if ((ret->digest[0] && !image_digest_is_valid(ret->digest)) || !form_is_valid(ret->form)) {
        return broken(reterr, "has a digest or a form that is none");
    }
    int r = 0;
    for (const struct json *item = json_first(env); r == 0 && item; item = json_next(item)) {
        const char *text = json_string(item);
        r = text ? image_record_add_env(ret, text, reterr)
                 : broken(reterr, "has a variable that is no string");
    }
    return r;
}

int image_record_read(int fd, struct image_record *ret, struct err *reterr)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    CLEANUP(fd_closep) int file = image_open_below(fd, RECORD, O_RDONLY | O_NONBLOCK);
    int r = file < 0 ? file : io_read_fd(file, RECORD_BYTES_MAX, &text);
    if (r < 0) {
        return broken(reterr, strerror(-r));
    }
    struct json_doc *doc;
    struct image_record record = {0};
    r = json_parse(text.data ? text.data : "", text.len, &doc, reterr);
    if (r < 0) {
        return err_wrap(reterr, "its " RECORD);
    }
    r = record_from_json(json_root(doc), &record, reterr);
    json_free(doc);
    if (r < 0) {
        image_record_clear(&record);
        return r;
    }
    *ret = record;
    return 0;
}

int image_record_write(int fd, const struct image_record *record, struct err *reterr)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    buf_putc(&text, '{');
    json_out_text(&text, "digest", record->digest);
    json_out_text(&text, "source", record->source);
    json_out_text(&text, "form", record->form);
    json_out_u64(&text, "imported_ms", record->imported_ms);
    json_out_u64(&text, "bytes", record->bytes);
    json_out_u64(&text, "files", record->files);
    json_out_open(&text, "env", '[');
    for (size_t i = 0; i < record->n_env; i++) {
        json_out_separator(&text);
        json_write_string(&text, record->env[i], strlen(record->env[i]));
    }
    buf_puts(&text, "]}\n");
    CLEANUP(fd_closep)
    int file = openat(fd, RECORD, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    int r = text.failed ? -ENOMEM : file < 0 ? -errno : io_write_full(file, text.data, text.len);
    r = r < 0 ? r : fchmod(file, 0644) < 0 ? -errno : 0;
    return r < 0 ? err_errno(reterr, -r, "writing " RECORD) : 0;
}

/* ---- The directory ---- */

/* Whatever is in it, and however its modes are: it may have been left half unpacked. */
static int remove_directory(int store, const char *name)
{
    CLEANUP(fd_closep) int fd = image_open_below(store, name, O_RDONLY | O_DIRECTORY);
    if (fd < 0) {
        return fd == -ENOENT ? 0 : fd;
    }
    image_tree_open_up(fd);
    int r = tree_clear(fd);
    r = r < 0 ? r : unlinkat(store, name, AT_REMOVEDIR) < 0 ? -errno : 0;
    return r;
}

/* -EWOULDBLOCK while jobs run in it. */
static int remove_unused(int store, const char *name)
{
    CLEANUP(fd_closep) int fd = image_open_below(store, name, O_RDONLY | O_DIRECTORY);
    if (fd < 0) {
        return fd;
    }
    return flock(fd, LOCK_EX | LOCK_NB) < 0 ? -errno : remove_directory(store, name);
}

/* Out of sight at once; out of the way when nobody runs in it. */
static int set_aside(int store, const char *name, bool *ret_in_use)
{
    char aside[64];
    uint64_t now_ns = clock_wall_ns();
    int r;
    do {
        snprintf(aside, sizeof aside, REMOVED "%" PRIu64, now_ns++);
        r = renameat2(store, name, store, aside, RENAME_NOREPLACE) < 0 ? -errno : 0;
    } while (r == -EEXIST);
    if (r < 0) {
        return r;
    }
    r = remove_unused(store, aside);
    *ret_in_use = r == -EWOULDBLOCK;
    return *ret_in_use ? 0 : r;
}

/* What an import was making when it ended, or, where it ended between two renames, the image that it has
 * replaced, which jobs may still run in. Of an import that was killed, what unpacks in its jail may take a
 * moment to end, and write as long. */
static int remove_staging(int store)
{
    static const struct timespec pause = {.tv_nsec = 50000000};
    bool in_use;
    int r = remove_unused(store, STAGING);
    for (int tries = 0; r == -ENOTEMPTY && tries < 40; tries++) {
        nanosleep(&pause, NULL);
        r = remove_unused(store, STAGING);
    }
    r = r == -EWOULDBLOCK ? set_aside(store, STAGING, &in_use) : r;
    return r == -ENOENT ? 0 : r;
}

static DIR *open_listing(int store)
{
    CLEANUP(fd_closep) int fd = openat(store, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir) {
        TAKE_FD(fd);
    }
    return dir;
}

/* What cannot be removed now is left for the next time. */
static int sweep(int store)
{
    int r = remove_staging(store);
    CLEANUP(dir_closep) DIR *dir = open_listing(store);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        if (strncmp(entry->d_name, REMOVED, strlen(REMOVED)) == 0) {
            remove_unused(store, entry->d_name);
        }
    }
    return r;
}

static int unusable(struct err *reterr, const char *directory, int code)
{
    char why[IO_PATH_ERROR_BYTES];
    return err_set(reterr, ERR_CONFIG, code, directory, "%s", io_path_error(directory, code, why));
}

int image_store_lock(const char *directory, int *ret_fd, struct err *reterr)
{
    /* Servers run as other users than who imports. */
    if (mkdir(directory, 0755) == 0 ? chmod(directory, 0755) < 0 : errno != EEXIST) {
        return unusable(reterr, directory, errno);
    }
    CLEANUP(fd_closep) int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return unusable(reterr, directory, errno);
    }
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        fputs("immure image: waiting for another one that changes images\n", stderr);
        if (flock(fd, LOCK_EX) < 0) {
            return unusable(reterr, directory, errno);
        }
    }
    int r = sweep(fd);
    if (r < 0) {
        return unusable(reterr, directory, -r);
    }
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int image_store_stage(int store, int *ret_fd, struct err *reterr)
{
    int r =
        mkdirat(store, STAGING, 0700) < 0 ? -errno : image_open_below(store, STAGING, O_RDONLY | O_DIRECTORY);
    if (r >= 0 && fchmod(r, 0700) < 0) {
        int code = errno;
        close(r);
        r = -code;
    }
    if (r < 0) {
        return err_errno(reterr, -r, "making a directory for an image");
    }
    *ret_fd = r;
    return 0;
}

void image_store_unstage(int store)
{
    remove_staging(store);
}

/* What cannot be made durable has not happened. */
static int give_name(int store, const char *name, unsigned flags)
{
    if (renameat2(store, STAGING, store, name, flags) < 0) {
        return -errno;
    }
    int r = fsync(store) < 0 ? -errno : 0;
    if (r < 0) {
        renameat2(store, name, store, STAGING, flags);
    }
    return r;
}

int image_store_publish(int store, int staging, const char *name, bool replace, struct err *reterr)
{
    bool in_use;
    /* Before its name is there, its content is. */
    int r = fchmod(staging, 0755) < 0 || syncfs(staging) < 0 ? -errno : 0;
    r = r < 0 ? r : give_name(store, name, RENAME_NOREPLACE);
    if (r == -EEXIST && !replace) {
        return err_set(reterr, ERR_INVALID, EEXIST, name,
                       "there is an image of that name; --replace takes its place");
    }
    if (r == -EEXIST) {
        r = give_name(store, name, RENAME_EXCHANGE);
        if (r == 0) {
            set_aside(store, STAGING, &in_use); /* the image is in place: what stays is for the next sweep */
        }
    }
    return r < 0 ? err_errno(reterr, -r, "giving the image its name") : 0;
}

int image_store_remove(int store, const char *name, bool *ret_in_use, struct err *reterr)
{
    int r = image_name_is_valid(name) ? set_aside(store, name, ret_in_use) : -ENOENT;
    if (r == -ENOENT) {
        return err_set(reterr, ERR_INVALID, ENOENT, name, "there is no such image");
    }
    return r < 0 ? err_set(reterr, ERR_INTERNAL, -r, name, "%s", strerror(-r)) : 0;
}

int image_store_list(const char *directory, image_found found, void *arg, struct err *reterr)
{
    CLEANUP(fd_closep) int store = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(dir_closep) DIR *dir = store < 0 ? NULL : open_listing(store);
    if (!dir) {
        return unusable(reterr, directory, errno);
    }
    for (const struct dirent *entry; (entry = readdir(dir));) {
        struct image_record record = {0};
        struct err err = {0};
        CLEANUP(fd_closep)
        int fd = image_name_is_valid(entry->d_name)
                     ? image_open_below(store, entry->d_name, O_RDONLY | O_DIRECTORY)
                     : -1;
        if (fd >= 0) {
            int r = image_record_read(fd, &record, &err);
            found(arg, entry->d_name, r < 0 ? NULL : &record, &err);
            image_record_clear(&record);
        }
    }
    return 0;
}
