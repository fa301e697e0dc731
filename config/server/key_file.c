/* Keys in a file of their own. Runs in the warden, which reads it with the configuration, and in `immure
 * key`, which edits it. Editing leaves every other byte as it is: what people have written there stays; and
 * before a text is used, it must read as a file of keys that differs from the old one by that key alone. */
#include "config/server/key_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "config/format/digest.h"
#include "config/format/protofile.h"
#include "config/format/source.h"
#include "config/server/server.pb-c.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"

bool key_file_read_time(const char *text, uint64_t *ret)
{
    struct tm utc = {0};
    char again[32];
    bool day = strlen(text) == strlen("2027-01-31");
    const char *format = day ? "%Y-%m-%d" : "%Y-%m-%dT%H:%M:%SZ";
    const char *end = strptime(text, format, &utc);
    if (!end || *end != '\0') {
        return false;
    }
    /* What is no day of the calendar would silently become another. */
    struct tm normal = utc;
    time_t at = timegm(&normal);
    if (at <= 0 || strftime(again, sizeof again, format, &normal) == 0 || strcmp(again, text) != 0) {
        return false;
    }
    *ret = (uint64_t)at;
    return true;
}

static int decode(struct source *source, const char *text, size_t size, Immure__KeyFile **ret,
                  struct err *reterr)
{
    ProtobufCMessage *message;
    int r = protofile_decode(&immure__key_file__descriptor, source, text ? text : "", size, &message, reterr);
    if (r == 0) {
        *ret = (Immure__KeyFile *)message;
    }
    return r;
}

static void file_freep(Immure__KeyFile **message)
{
    immure__key_file__free_unpacked(*message, NULL);
}

int key_file_append(struct Immure__Server *message, struct source *source, struct err *reterr)
{
    if (message->key_file[0] == '\0') {
        return 0;
    }
    if (message->key_file[0] != '/') {
        return source_fail(source, "key_file", reterr, "must be an absolute path, not \"%.60s\"",
                           message->key_file);
    }
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    CLEANUP(source_free) struct source own = SOURCE_NAMED(message->key_file);
    CLEANUP(file_freep) Immure__KeyFile *file = NULL;
    int r = protofile_read(message->key_file, &text, NULL);
    if (r < 0) {
        char why[IO_PATH_ERROR_BYTES];
        return source_fail(source, "key_file", reterr, "\"%.200s\" cannot be read: %s", message->key_file,
                           io_path_error(message->key_file, -r, why));
    }
    r = decode(&own, text.data, text.len, &file, reterr);
    if (r < 0 || file->n_key == 0) {
        return r;
    }
    Immure__Key **keys = reallocarray(message->key, message->n_key + file->n_key, sizeof *keys);
    if (!keys) {
        return err_errno(reterr, ENOMEM, "while reading %s", message->key_file);
    }
    message->key = keys;
    for (size_t i = 0; i < file->n_key; i++) {
        char path[48], own_path[48];
        snprintf(path, sizeof path, "key[%zu]", message->n_key);
        snprintf(own_path, sizeof own_path, "key[%zu]", i);
        keys[message->n_key++] = TAKE_PTR(file->key[i]);
        /* What is wrong with it is told as this file has it. */
        if (source_adopt(source, path, &own, own_path, false) < 0) {
            r = err_errno(reterr, ENOMEM, "while reading %s", message->key_file);
        }
    }
    file->n_key = 0;
    return r;
}

/* ---- For people ---- */

void key_rows_clear(struct key_rows *rows)
{
    for (size_t i = 0; i < rows->n; i++) {
        free(rows->rows[i].name);
        free(rows->rows[i].team);
        free(rows->rows[i].expires);
        free(rows->rows[i].policies);
        free(rows->rows[i].runtimes);
    }
    free(rows->rows);
    *rows = (struct key_rows){0};
}

static char *join(char *const *texts, size_t n)
{
    struct buf joined = BUF_INIT;
    buf_puts(&joined, "");
    for (size_t i = 0; i < n; i++) {
        buf_printf(&joined, "%s%s", i > 0 ? "," : "", texts[i]);
    }
    return buf_steal(&joined);
}

static bool is_name(const char *text)
{
    static const char sane[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    return *text && text[strspn(text, sane)] == '\0' && strlen(text) <= 64;
}

static int check_key(const char *path, const Immure__KeyFile *file, size_t i, struct err *reterr)
{
    const Immure__Key *key = file->key[i];
    unsigned char hash[KEY_HASH_BYTES];
    uint64_t expires_s;
    for (size_t j = 0; j < i; j++) {
        if (strcmp(file->key[j]->name, key->name) == 0) {
            return err_set(reterr, ERR_CONFIG, EEXIST, path, "\"%.60s\" is the name of two keys", key->name);
        }
    }
    if (!is_name(key->name) || (*key->team && !is_name(key->team))) {
        return err_set(reterr, ERR_CONFIG, EINVAL, path,
                       "names have 1 to 64 of A-Z a-z 0-9 _ . -; \"%.60s\" or its team has another",
                       key->name);
    }
    if (sha256_from_hex(key->sha256, hash) < 0) {
        return err_set(reterr, ERR_CONFIG, EINVAL, path, "the sha256 of \"%.60s\" is none", key->name);
    }
    if (*key->expires && !key_file_read_time(key->expires, &expires_s)) {
        return err_set(reterr, ERR_CONFIG, EINVAL, path,
                       "expires of \"%.60s\" must be like 2027-01-31 or 2027-01-31T12:00:00Z", key->name);
    }
    return 0;
}

int key_file_list(const char *path, const char *text, size_t size, struct key_rows *ret, struct err *reterr)
{
    CLEANUP(source_free) struct source source = SOURCE_NAMED(path);
    CLEANUP(file_freep) Immure__KeyFile *file = NULL;
    CLEANUP(key_rows_clear) struct key_rows rows = {0};
    int r = decode(&source, text, size, &file, reterr);
    if (r < 0) {
        return r;
    }
    rows.rows = calloc(file->n_key + 1, sizeof *rows.rows);
    for (size_t i = 0; rows.rows && i < file->n_key; i++) {
        const Immure__Key *key = file->key[i];
        r = check_key(path, file, i, reterr);
        if (r < 0) {
            return r;
        }
        struct key_row *row = &rows.rows[rows.n++];
        *row = (struct key_row){.name = strdup(key->name),
                                .team = strdup(key->team),
                                .expires = strdup(key->expires),
                                .policies = join(key->policy, key->n_policy),
                                .runtimes = join(key->runtime, key->n_runtime)};
        if (!row->name || !row->team || !row->expires || !row->policies || !row->runtimes) {
            return err_errno(reterr, ENOMEM, "while reading %s", path);
        }
    }
    if (!rows.rows) {
        return err_errno(reterr, ENOMEM, "while reading %s", path);
    }
    ret->n = rows.n;
    rows.n = 0;
    ret->rows = TAKE_PTR(rows.rows);
    return 0;
}

/* ---- Editing ---- */

static bool has(const struct key_rows *rows, const char *name)
{
    for (size_t i = 0; i < rows->n; i++) {
        if (strcmp(rows->rows[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Only what cannot end a string of the text format. */
static bool is_plain(const char *text)
{
    return !strpbrk(text, "\"\\\n\r") && strlen(text) <= 128;
}

static int put_texts(struct buf *line, const char *field, const char *const *texts, size_t n,
                     struct err *reterr)
{
    for (size_t i = 0; i < n; i++) {
        if (!is_plain(texts[i])) {
            return err_set(reterr, ERR_INVALID, EINVAL, field, "\"%.60s\" cannot be the name of one",
                           texts[i]);
        }
        buf_printf(line, " %s: \"%s\"", field, texts[i]);
    }
    return 0;
}

static void put_number(struct buf *line, const char *field, uint64_t number)
{
    if (number > 0) {
        buf_printf(line, " %s: %" PRIu64, field, number);
    }
}

static int put_line(const struct key_wish *wish, const char *key, struct buf *ret, struct err *reterr)
{
    char hex[SHA256_HEX];
    uint64_t expires_s;
    sha256_hex_of(key, strlen(key), hex);
    buf_printf(ret, "key { name: \"%s\" sha256: \"%s\"", wish->name, hex);
    if (wish->team) {
        buf_printf(ret, " team: \"%s\"", wish->team);
    }
    if (wish->expires) {
        if (!key_file_read_time(wish->expires, &expires_s)) {
            return err_set(reterr, ERR_INVALID, EINVAL, "--expires",
                           "must be like 2027-01-31 or 2027-01-31T12:00:00Z");
        }
        buf_printf(ret, " expires: \"%s\"", wish->expires);
    }
    int r = put_texts(ret, "policy", wish->policies, wish->n_policies, reterr);
    r = r < 0 ? r : put_texts(ret, "runtime", wish->runtimes, wish->n_runtimes, reterr);
    put_number(ret, "max_concurrent_jobs", wish->max_concurrent_jobs);
    put_number(ret, "max_jobs_per_minute", wish->max_jobs_per_minute);
    put_number(ret, "max_timeout_ms", wish->max.timeout_ms);
    put_number(ret, "max_memory_bytes", wish->max.memory_bytes);
    put_number(ret, "max_pids", wish->max.pids);
    put_number(ret, "max_cpu_percent", wish->max.cpu_percent);
    put_number(ret, "max_cpu_ms", wish->max.cpu_ms);
    put_number(ret, "max_scratch_bytes", wish->max.scratch_bytes);
    put_number(ret, "max_output_bytes", wish->max.output_bytes);
    if (wish->approver) {
        buf_puts(ret, " approver: true");
    }
    buf_puts(ret, " }\n");
    return r;
}

int key_file_add(const char *path, const struct key_wish *wish, struct buf *text, char ret_key[KEY_BYTES],
                 struct err *reterr)
{
    CLEANUP(key_rows_clear) struct key_rows before = {0}, after = {0};
    unsigned char random[32];
    int r = key_file_list(path, text->data, text->len, &before, reterr);
    if (r < 0) {
        return r;
    }
    const char *wrong = !is_name(wish->name) ? "NAME" : wish->team && !is_name(wish->team) ? "--team" : NULL;
    if (wrong) {
        return err_set(reterr, ERR_INVALID, EINVAL, wrong, "names have 1 to 64 of A-Z a-z 0-9 _ . -");
    }
    if (has(&before, wish->name)) {
        return err_set(reterr, ERR_INVALID, EEXIST, "NAME", "there is a key \"%s\" already", wish->name);
    }
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
        return err_errno(reterr, errno, "making a key");
    }
    size_t length = (size_t)snprintf(ret_key, KEY_BYTES, "imm_");
    for (size_t i = 0; i < sizeof random; i++) {
        length += (size_t)snprintf(ret_key + length, KEY_BYTES - length, "%02x", random[i]);
    }
    explicit_bzero(random, sizeof random);
    if (text->len > 0 && text->data[text->len - 1] != '\n') {
        buf_putc(text, '\n');
    }
    r = put_line(wish, ret_key, text, reterr);
    if (r < 0 || text->failed) {
        return r < 0 ? r : err_errno(reterr, ENOMEM, "while changing %s", path);
    }
    r = key_file_list(path, text->data, text->len, &after, reterr);
    if (r == 0 && (after.n != before.n + 1 || !has(&after, wish->name))) {
        r = err_set(reterr, ERR_CONFIG, EINVAL, path, "cannot be added to; end its last message first");
    }
    return r;
}

/* The line that is the whole of that key, as key_file_add() writes it. */
static bool is_line_of(const char *line, size_t size, const char *name)
{
    char begins[96];
    int length = snprintf(begins, sizeof begins, "key { name: \"%s\" ", name);
    return size > (size_t)length && memcmp(line, begins, (size_t)length) == 0 && line[size - 1] == '}';
}

int key_file_remove(const char *path, const char *name, struct buf *text, struct err *reterr)
{
    CLEANUP(key_rows_clear) struct key_rows before = {0}, after = {0};
    int r = key_file_list(path, text->data, text->len, &before, reterr);
    if (r < 0) {
        return r;
    }
    if (!is_name(name) || !has(&before, name)) {
        return err_set(reterr, ERR_NOT_FOUND, ENOENT, "NAME", "there is no key \"%.64s\" in %.100s", name,
                       path);
    }
    for (size_t at = 0; at < text->len;) {
        const char *line = text->data + at, *end = memchr(line, '\n', text->len - at);
        size_t size = end ? (size_t)(end - line) : text->len - at;
        if (is_line_of(line, size, name)) {
            size += end != NULL;
            memmove(text->data + at, text->data + at + size, text->len - at - size);
            text->len -= size;
            text->data[text->len] = '\0';
            break;
        }
        at += size + 1;
    }
    r = key_file_list(path, text->data, text->len, &after, reterr);
    if (r == 0 && (after.n + 1 != before.n || has(&after, name))) {
        r = err_set(reterr, ERR_CONFIG, EINVAL, path,
                    "has the key \"%s\" not on a line of its own; take it out by hand", name);
    }
    return r;
}
