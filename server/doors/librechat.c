/* The contract of LibreChat's code interpreter. Runs in the front. A request becomes one of POST /execute in
 * a session of its own, whose files are what the next request may name. Members that only say for whom a chat
 * is (user_id, kind, resource_id, ...) are left out: what a file belongs to is the key. */
#include "server/doors/librechat.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/digest.h"
#include "config/format/json.h"
#include "config/message/message_session.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/doors/execute.h"
#include "server/doors/input_files.h"
#include "server/kit/capture.h"
#include "server/kit/ident.h"
#include "server/kit/json_out.h"

/* Their names of languages, where no runtime has them itself. */
static const struct {
    const char *theirs, *name;
} languages[] = {
    {"py", "python"}, {"js", "javascript"}, {"ts", "typescript"}, {"rs", "rust"}, {"f90", "fortran"},
};

static void json_freep(struct json_doc **doc)
{
    json_free(*doc);
}

static int bad(struct err *reterr, const char *field, const char *why)
{
    return err_set(reterr, ERR_INVALID, EINVAL, field, "%s: %s", field, why);
}

/* ---- Ids ---- */

void librechat_file_id(const char *path, char ret[LIBRECHAT_ID_BYTES])
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    unsigned char hash[SHA256_BYTES];
    sha256_of(path, strlen(path), hash);
    for (size_t i = 0; i < LIBRECHAT_ID_BYTES - 1; i++) {
        ret[i] = letters[hash[i] % 64];
    }
    ret[LIBRECHAT_ID_BYTES - 1] = '\0';
}

void librechat_fresh_id(char ret[LIBRECHAT_ID_BYTES])
{
    char id[IDENT_BYTES];
    ident_fresh(id);
    librechat_file_id(id, ret);
}

const struct session_file *librechat_find(const struct session_rows *rows, const char *id)
{
    for (size_t i = 0; i < rows->n_files; i++) {
        char found[LIBRECHAT_ID_BYTES];
        librechat_file_id(rows->files[i].path, found);
        if (strcmp(found, id) == 0) {
            return &rows->files[i];
        }
    }
    return NULL;
}

/* ---- The request ---- */

static void state_free(void *state)
{
    struct librechat *librechat = state;
    for (size_t i = 0; i < librechat->n_files; i++) {
        free(librechat->files[i].name);
    }
    free(librechat->files);
    free(librechat);
}

static void librechat_freep(struct librechat **librechat)
{
    if (*librechat) {
        state_free(*librechat);
    }
}

/* The session is the file's own, which older callers call `session_id`. */
static int read_file(const struct json *file, size_t index, struct librechat_file *ret, struct err *reterr)
{
    char field[64];
    const char *id = json_string(json_get(file, "id")), *name = json_string(json_get(file, "name"));
    const char *session = json_string(json_get(file, "storage_session_id"));
    session = session ? session : json_string(json_get(file, "session_id"));
    snprintf(field, sizeof field, "files[%zu].id", index);
    if (!id || strlen(id) >= sizeof ret->id) {
        return bad(reterr, field, "must be the id of a file: upload it, and send the id that the reply has");
    }
    snprintf(field, sizeof field, "files[%zu].session_id", index);
    if (!session || !session_id_is_valid(session)) {
        return bad(reterr, field, "must be the session of the file, which the reply to its upload has");
    }
    snprintf(field, sizeof field, "files[%zu].name", index);
    if (!name) {
        return bad(reterr, field, "is required as a string");
    }
    snprintf(ret->id, sizeof ret->id, "%s", id);
    snprintf(ret->session_id, sizeof ret->session_id, "%s", session);
    ret->name = strdup(name);
    return ret->name ? input_path_clean(ret->name, field, reterr)
                     : err_errno(reterr, ENOMEM, "reading a request");
}

/* Of two files of one name the later one is what the program would find. */
static void drop_same_name(struct librechat *librechat)
{
    struct librechat_file *last = &librechat->files[librechat->n_files - 1];
    for (struct librechat_file *file = librechat->files; file < last; file++) {
        if (strcmp(file->name, last->name) == 0) {
            free(file->name);
            *file = *last;
            *last = (struct librechat_file){0};
            librechat->n_files--;
            return;
        }
    }
}

static int read_files(const struct json *files, struct librechat *ret, struct err *reterr)
{
    if (!files || json_type_of(files) == JSON_NULL) {
        return 0;
    }
    if (json_type_of(files) != JSON_ARRAY) {
        return bad(reterr, "files", "must be an array");
    }
    int r = execute_check_count(files, "files", JOB_FILES_MAX, reterr);
    if (r < 0 || json_count(files) == 0) {
        return r;
    }
    ret->files = calloc(json_count(files), sizeof *ret->files);
    if (!ret->files) {
        return err_errno(reterr, ENOMEM, "reading a request");
    }
    for (const struct json *file = json_first(files); file && r == 0; file = json_next(file)) {
        size_t index = ret->n_files++;
        r = read_file(file, index, &ret->files[index], reterr);
        if (r == 0) {
            drop_same_name(ret);
        }
    }
    return r;
}

static int find_language(const struct json *root, const struct server_config *config, const char **ret,
                         struct err *reterr)
{
    const char *asked = json_string(json_get(root, "lang"));
    if (!asked || !*asked) {
        return bad(reterr, "lang", "is required as a string");
    }
    const struct runtime_config *runtime = server_config_runtime(config, asked);
    for (size_t i = 0; !runtime && i < ARRAY_SIZE(languages); i++) {
        runtime =
            strcmp(languages[i].theirs, asked) == 0 ? server_config_runtime(config, languages[i].name) : NULL;
    }
    if (!runtime || runtime->evaluator) {
        return err_set(reterr, ERR_INVALID, EINVAL, "lang",
                       "lang: the language '%.60s' is not there; this server's runtimes say which are",
                       asked);
    }
    *ret = runtime->name;
    return 0;
}

static int put_args(const struct json *args, struct buf *ret, struct err *reterr)
{
    if (!args || json_type_of(args) == JSON_NULL) {
        return 0;
    }
    if (json_type_of(args) != JSON_ARRAY) {
        return bad(reterr, "args", "must be an array of strings");
    }
    json_out_open(ret, "args", '[');
    for (const struct json *item = json_first(args); item; item = json_next(item)) {
        if (json_type_of(item) != JSON_STRING) {
            return bad(reterr, "args", "must be an array of strings");
        }
        json_out_separator(ret);
        json_write_string(ret, json_string(item), json_string_length(item));
    }
    buf_putc(ret, ']');
    return 0;
}

static int translate(const struct json *root, const char *language, const char *session_id, struct buf *ret,
                     struct err *reterr)
{
    const struct json *code = json_get(root, "code");
    uint64_t timeout_ms;
    if (json_string_length(code) == 0) {
        return bad(reterr, "code", "is required as a string");
    }
    buf_putc(ret, '{');
    json_out_text(ret, "language", language);
    json_out_bytes(ret, "code", json_string(code), json_string_length(code));
    json_out_text(ret, "session_id", session_id);
    if (json_u64(json_get(root, "timeout"), &timeout_ms)) {
        json_out_u64(ret, "timeout_ms", timeout_ms);
    }
    int r = put_args(json_get(root, "args"), ret, reterr);
    buf_putc(ret, '}');
    return r < 0 ? r : ret->failed ? err_errno(reterr, ENOMEM, "reading a request") : 0;
}

static int decode(const struct json *root, const char *text, size_t size, const struct server_config *config,
                  struct execute_request *ret, struct err *reterr)
{
    (void)text;
    (void)size;
    CLEANUP(buf_free) struct buf translated = BUF_INIT;
    CLEANUP(json_freep) struct json_doc *doc = NULL;
    CLEANUP(librechat_freep) struct librechat *librechat = calloc(1, sizeof *librechat);
    const char *language = NULL;
    if (!librechat) {
        return err_errno(reterr, ENOMEM, "reading a request");
    }
    librechat_fresh_id(librechat->session_id);
    int r = find_language(root, config, &language, reterr);
    r = r < 0 ? r : read_files(json_get(root, "files"), librechat, reterr);
    r = r < 0 ? r : translate(root, language, librechat->session_id, &translated, reterr);
    r = r < 0 ? r : json_parse(translated.data, translated.len, &doc, reterr);
    r = r < 0 ? r : execute_decode(json_root(doc), config, ret, reterr);
    if (r == 0) {
        ret->door = &librechat_door;
        ret->state = TAKE_PTR(librechat);
    }
    return r;
}

/* ---- The reply ---- */

/* What a program printed there, and what a model should know beside it. */
static void put_stderr(struct buf *ret, const struct job_result *result, const struct capture *capture)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    const struct buf *err = &capture->streams[CAPTURE_STDERR];
    char sentence[EXECUTE_SENTENCE_BYTES];
    bool is_own = result->status == JOB_SUCCESS ||
                  (err->len > 0 && result->exit_code > 0 && !result->signal && !result->oom);
    buf_append(&text, err->data ? err->data : "", err->len);
    if (!is_own) {
        execute_failure_sentence(result, sentence, sizeof sentence);
        buf_printf(&text, "%s%s\n", err->len > 0 && err->data[err->len - 1] != '\n' ? "\n" : "", sentence);
    }
    if (capture->truncated[CAPTURE_STDOUT] || capture->truncated[CAPTURE_STDERR]) {
        buf_puts(&text, "[output truncated]\n");
    }
    json_out_bytes(ret, "stderr", text.data ? text.data : "", text.len);
    ret->failed = ret->failed || text.failed;
}

static void put_names(const char *path, const char *session_id, struct buf *ret)
{
    char id[LIBRECHAT_ID_BYTES];
    librechat_file_id(path, id);
    json_out_text(ret, "id", id);
    json_out_text(ret, "session_id", session_id);
    json_out_text(ret, "storage_session_id", session_id);
}

static int encode(const struct job_result *result, const struct job_texts *texts, struct buf *ret,
                  struct err *reterr)
{
    const struct librechat *librechat = texts->state;
    const struct buf *out = &texts->capture->streams[CAPTURE_STDOUT];
    buf_putc(ret, '{');
    json_out_text(ret, "session_id", librechat->session_id);
    json_out_bytes(ret, "stdout", out->data, out->len);
    put_stderr(ret, result, texts->capture);
    json_out_open(ret, "files", '[');
    for (size_t i = 0; i < result->n_files; i++) {
        if (result->files[i].written) {
            json_out_separator(ret);
            buf_putc(ret, '{');
            put_names(result->files[i].path, librechat->session_id, ret);
            json_out_text(ret, "name", result->files[i].path);
            buf_putc(ret, '}');
        }
    }
    buf_puts(ret, "]}\n");
    return ret->failed ? err_errno(reterr, ENOMEM, "writing a reply") : 0;
}

/* `name` leads with where it lies, as theirs does; the file's own is among `metadata`. */
void librechat_write_file(const struct session_file *file, const char *session_id, struct buf *ret)
{
    CLEANUP(buf_free) struct buf name = BUF_INIT;
    char id[LIBRECHAT_ID_BYTES];
    const char *slash = strrchr(file->path, '/'), *last = slash ? slash + 1 : file->path;
    const char *dot = strrchr(last, '.');
    librechat_file_id(file->path, id);
    buf_printf(&name, "%s/%s%s", session_id, id, dot && dot != last ? dot : "");
    buf_putc(ret, '{');
    put_names(file->path, session_id, ret);
    json_out_bytes(ret, "name", name.data ? name.data : "", name.len);
    json_out_u64(ret, "size", file->size);
    json_out_time(ret, "lastModified", file->modified_ms);
    json_out_open(ret, "metadata", '{');
    json_out_text(ret, "original-filename", file->path);
    buf_puts(ret, "}}");
    ret->failed = ret->failed || name.failed;
}

const struct door librechat_door = {
    .name = "librechat",
    .reply_event = "result",
    .decode = decode,
    .encode = encode,
    .state_free = state_free,
};
