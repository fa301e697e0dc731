/* What a program shows: its mime bundles are looked at here, and written anew. Runs in the front, on frames
 * of a program that may be out to harm.
 *
 * What must hold: whatever the program says, what is written is an object of the reply's JSON on one line, of
 * strings and, for mimes that are JSON, of values. A program that lies about what a string holds lies about
 * itself. */
#include "server/kit/rich_results.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/digest.h"
#include "config/format/json.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "server/kit/json_out.h"

#define MIME_BYTES_MAX 100u
#define MIMES_MAX      32u

static bool is_type(const struct json_slice *type, const char *word)
{
    return type->type == JSON_STRING && type->size == strlen(word) + 2 &&
           memcmp(type->text + 1, word, type->size - 2) == 0;
}

/* TYPE/SUBTYPE, as they are registered; parameters are none of its. */
static bool is_mime(const char *name)
{
    const char *slash = strchr(name, '/');
    size_t size = strlen(name);
    if (!slash || slash == name || !slash[1] || strchr(slash + 1, '/') || size > MIME_BYTES_MAX) {
        return false;
    }
    for (const char *at = name; *at; at++) {
        if (!isalnum((unsigned char)*at) && !strchr("/.+-_", *at)) {
            return false;
        }
    }
    return true;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool ends(const char *text, const char *with)
{
    size_t size = strlen(text), end = strlen(with);
    return size >= end && strcmp(text + size - end, with) == 0;
}

static bool is_binary(const char *mime)
{
    return strcmp(mime, "application/pdf") == 0 || begins(mime, "audio/") || begins(mime, "video/") ||
           (begins(mime, "image/") && !ends(mime, "+xml"));
}

static bool is_base64(const struct json *value)
{
    CLEANUP(buf_free) struct buf decoded = BUF_INIT;
    return base64_decode(json_string(value), json_string_length(value), &decoded) == 0;
}

/* The string is the value's JSON text. */
static bool put_json(const struct json *value, struct buf *ret)
{
    struct json_doc *doc;
    const char *text = json_string(value);
    size_t size = json_string_length(value), before = ret->len;
    if (json_parse(text, size, &doc, NULL) < 0) {
        return false;
    }
    struct json_slice slice = {text, size, json_type_of(json_root(doc))};
    json_free(doc);
    if (json_rewrite(&slice, ret) < 0) {
        ret->len = before;
        return false;
    }
    return true;
}

static bool put_value(const char *mime, const struct json *value, struct buf *ret)
{
    size_t before = ret->len;
    json_out_key(ret, mime);
    bool is_json = strcmp(mime, "application/json") == 0 || ends(mime, "+json");
    if (is_json ? put_json(value, ret)
                : (!is_binary(mime) || is_base64(value)) &&
                      json_write_string(ret, json_string(value), json_string_length(value)) == 0) {
        return true;
    }
    ret->len = before;
    return false;
}

/* False: nothing of it could be told. */
static bool put_bundle(struct rich_results *results, const char *type, const struct json *data)
{
    struct buf *ret = &results->json;
    size_t n = 0;
    json_out_text(ret, "type", type);
    json_out_open(ret, "data", '{');
    for (const struct json *member = json_first(data); member; member = json_next(member)) {
        bool told = n < MIMES_MAX && json_string(member) && is_mime(json_key(member)) &&
                    put_value(json_key(member), member, ret);
        n += told;
        results->cut = results->cut || !told;
    }
    buf_putc(ret, '}');
    return n > 0;
}

static bool put_error(struct rich_results *results, const struct json *data)
{
    static const char *const names[] = {"name", "value", "traceback"};
    struct buf *ret = &results->json;
    json_out_text(ret, "type", "error");
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        const struct json *text = json_get(data, names[i]);
        json_out_bytes(ret, names[i], json_string(text) ? json_string(text) : "", json_string_length(text));
        results->cut = results->cut || !json_string(text);
    }
    return true;
}

static const char *add(struct rich_results *results, const struct json_slice *type,
                       const struct json_slice *data)
{
    static const char *const bundles[] = {"execute_result", "display"};
    struct buf *ret = &results->json;
    struct json_doc *doc;
    if (json_parse(data->text, data->size, &doc, NULL) < 0) {
        results->cut = true;
        return NULL;
    }
    size_t before = ret->len;
    bool known = false, told = false;
    buf_puts(ret, before > 0 ? ",{" : "{");
    for (size_t i = 0; i < ARRAY_SIZE(bundles); i++) {
        if (is_type(type, bundles[i])) {
            known = true;
            told = put_bundle(results, bundles[i], json_root(doc));
        }
    }
    if (is_type(type, "error")) {
        known = true;
        told = put_error(results, json_root(doc));
    }
    json_free(doc);
    buf_putc(ret, '}');
    if (!told || ret->failed) {
        ret->len = before;
        ret->failed = false;
        results->cut = true;
    } else {
        results->ends[results->n++] = ret->len;
        results->bytes += data->size;
    }
    return known ? NULL : "a result of an unknown type";
}

const char *rich_results_add(struct rich_results *results, const struct json_slice *type,
                             const struct json_slice *data, size_t *ret_at)
{
    *ret_at = results->json.len;
    if (is_type(type, "left_out")) { /* by the program's own side, which knows the limits */
        results->cut = true;
        return NULL;
    }
    if (data->type != JSON_OBJECT) {
        return "a result without data";
    }
    if (results->n >= RICH_RESULTS_MAX || data->size > RICH_RESULT_BYTES_MAX ||
        data->size > RICH_RESULTS_BYTES_MAX - results->bytes) {
        results->cut = true;
        return NULL;
    }
    const char *why = add(results, type, data);
    *ret_at += results->json.len > *ret_at && *ret_at > 0; /* behind the comma */
    return why;
}

const char *rich_results_get(const struct rich_results *results, size_t i, size_t *ret_size)
{
    size_t begin = i > 0 ? results->ends[i - 1] + 1 : 0;
    *ret_size = results->ends[i] - begin;
    return results->json.data + begin;
}
