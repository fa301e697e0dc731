/* A program's JSON text, written anew before it is passed on: one way to write each string, no blanks, no key
 * twice. So whoever reads it reads what has been looked at here, whatever JSON his parser takes. Runs in the
 * front. Linear: keys are found again by a hash whose secret is drawn for each text. */
#include "config/format/json.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "config/format/hex_digit.h"
#include "config/format/utf8.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"

#define FEW_KEYS 8u /* that are compared with each other */

/* A key as it stands in what is written, quotes included. */
struct key {
    size_t at, size;
};

struct rewriter {
    const char *at, *end;
    struct buf *ret;
    struct buf plain; /* a string without its escapes */
    struct key *keys; /* of the objects that are open, the innermost one's last */
    size_t n_keys, keys_room;
    size_t firsts[JSON_PASSED_DEPTH_MAX]; /* each such object's first key */
    unsigned depth;
    uint64_t secret;
};

/* Behind "\u". */
static uint32_t read_unit(struct rewriter *rewriter)
{
    uint32_t unit = 0;
    for (int i = 0; i < 4; i++) {
        unit = unit << 4 | (uint32_t)hex_digit(*rewriter->at++);
    }
    return unit;
}

/* Behind the backslash. */
static void read_escape(struct rewriter *rewriter)
{
    static const char escapes[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    char c = *rewriter->at++;
    if (c != 'u') {
        buf_putc(&rewriter->plain, meant[strchr(escapes, c) - escapes]);
        return;
    }
    uint32_t code = read_unit(rewriter);
    if (code >= 0xd800 && code <= 0xdbff) {
        rewriter->at += 2; /* the other half's "\u" */
        code = 0x10000 + ((code - 0xd800) << 10) + (read_unit(rewriter) - 0xdc00);
    }
    utf8_put(code, &rewriter->plain);
}

/* Behind a piece of a string that has no escapes: is that all of it? It is written as it stands then. */
static bool is_plain_string(struct rewriter *rewriter, const char *start)
{
    if (*rewriter->at != '"') {
        return false;
    }
    rewriter->at++;
    buf_append(rewriter->ret, start, (size_t)(rewriter->at - start));
    return true;
}

static void read_piece(struct rewriter *rewriter)
{
    while (*rewriter->at != '"' && *rewriter->at != '\\') {
        rewriter->at++;
    }
}

/* At its opening quote. */
static void write_string(struct rewriter *rewriter)
{
    const char *start = rewriter->at++;
    read_piece(rewriter);
    if (is_plain_string(rewriter, start)) {
        return;
    }
    rewriter->plain.len = 0;
    buf_append(&rewriter->plain, start + 1, (size_t)(rewriter->at - start - 1));
    while (*rewriter->at != '"') {
        rewriter->at++;
        read_escape(rewriter);
        start = rewriter->at;
        read_piece(rewriter);
        buf_append(&rewriter->plain, start, (size_t)(rewriter->at - start));
    }
    rewriter->at++;
    if (rewriter->plain.failed ||
        json_write_string(rewriter->ret, rewriter->plain.data, rewriter->plain.len) < 0) {
        rewriter->ret->failed = true;
    }
}

static void note_key(struct rewriter *rewriter, size_t at)
{
    if (rewriter->n_keys == rewriter->keys_room) {
        size_t room = rewriter->keys_room ? 2 * rewriter->keys_room : 16;
        struct key *more = reallocarray(rewriter->keys, room, sizeof *more);
        if (!more) {
            rewriter->ret->failed = true;
            return;
        }
        rewriter->keys = more;
        rewriter->keys_room = room;
    }
    rewriter->keys[rewriter->n_keys++] = (struct key){.at = at, .size = rewriter->ret->len - at};
}

/* A polynomial in the secret modulo a prime: two texts of n bytes meet for one in 2^61 / n of the secrets. */
static uint64_t hash_of(uint64_t secret, const char *text, size_t size)
{
    static const uint64_t prime = (1ull << 61) - 1;
    uint64_t hash = size;
    for (size_t at = 0; at < size; at += 7) {
        uint64_t word = 0;
        memcpy(&word, text + at, size - at < 7 ? size - at : 7);
        __extension__ unsigned __int128 product = (unsigned __int128)(hash + word) * secret;
        hash = (uint64_t)(product & prime) + (uint64_t)(product >> 61);
        hash = hash >= prime ? hash - prime : hash;
    }
    hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9u; /* all of it into the bits that choose the slot */
    hash = (hash ^ hash >> 27) * 0x94d049bb133111ebu;
    return hash ^ hash >> 31;
}

static bool same_key(const struct rewriter *rewriter, const struct key *a, const struct key *b)
{
    const char *text = rewriter->ret->data;
    return a->size == b->size && memcmp(text + a->at, text + b->at, a->size) == 0;
}

/* Of a few keys. */
static bool is_one_there_twice(const struct rewriter *rewriter, const struct key *keys, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        for (size_t j = 0; j < i; j++) {
            if (same_key(rewriter, &keys[i], &keys[j])) {
                return true;
            }
        }
    }
    return false;
}

/* Is one of the innermost object's keys there twice? -E2BIG, -ENOMEM. */
static int has_key_twice(const struct rewriter *rewriter)
{
    size_t first = rewriter->firsts[rewriter->depth - 1], n = rewriter->n_keys - first, room = 4;
    if (n < 2) {
        return 0;
    }
    if (n > JSON_REWRITTEN_KEYS_MAX) {
        return -E2BIG;
    }
    const struct key *keys = rewriter->keys + first;
    if (n <= FEW_KEYS) {
        return is_one_there_twice(rewriter, keys, n);
    }
    while (room < 2 * n) {
        room *= 2;
    }
    CLEANUP(freep) uint64_t *slots = calloc(room, sizeof *slots); /* half of the hash, and the key's number */
    if (!slots) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t hash = hash_of(rewriter->secret, rewriter->ret->data + keys[i].at, keys[i].size);
        size_t slot = hash & (room - 1);
        for (; slots[slot]; slot = (slot + 1) & (room - 1)) {
            if (slots[slot] >> 32 == hash >> 32 &&
                same_key(rewriter, &keys[(uint32_t)slots[slot] - 1], &keys[i])) {
                return 1;
            }
        }
        slots[slot] = (hash >> 32 << 32) | (uint32_t)(i + 1);
    }
    return 0;
}

/* Behind a string's closing quote: was it a key? */
static bool colon_follows(const struct rewriter *rewriter)
{
    const char *at = rewriter->at;
    while (at < rewriter->end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) {
        at++;
    }
    return at < rewriter->end && *at == ':';
}

/* Of what is written as it stands: numbers, words, commas, colons, brackets. */
static size_t length_of_rest(const struct rewriter *rewriter)
{
    const char *at = rewriter->at;
    while (at < rewriter->end && (unsigned char)*at > ' ' && *at != '"' && *at != '{' && *at != '}') {
        at++;
    }
    return (size_t)(at - rewriter->at);
}

/* At the next token's first byte. 0, a failure, or 1: a key is there twice. */
static int write_token(struct rewriter *rewriter)
{
    char c = *rewriter->at;
    if (c == '"') {
        size_t at = rewriter->ret->len;
        write_string(rewriter);
        if (colon_follows(rewriter)) {
            note_key(rewriter, at);
        }
        return 0;
    }
    size_t n = length_of_rest(rewriter);
    if (n > 0) {
        buf_append(rewriter->ret, rewriter->at, n);
        rewriter->at += n;
        return 0;
    }
    rewriter->at++;
    if (c != '{' && c != '}') {
        return 0; /* a blank */
    }
    buf_putc(rewriter->ret, c);
    if (c == '{') {
        rewriter->firsts[rewriter->depth++] = rewriter->n_keys;
    } else if (c == '}') {
        int r = has_key_twice(rewriter);
        rewriter->n_keys = rewriter->firsts[--rewriter->depth];
        return r;
    }
    return 0;
}

int json_rewrite(const struct json_slice *slice, struct buf *ret)
{
    struct rewriter rewriter = {.at = slice->text, .end = slice->text + slice->size, .ret = ret};
    int r = getrandom(&rewriter.secret, sizeof rewriter.secret, 0) == sizeof rewriter.secret ? 0 : -EIO;
    rewriter.secret &= (1ull << 61) - 2; /* below the prime */
    while (r == 0 && rewriter.at < rewriter.end && !ret->failed) {
        r = write_token(&rewriter);
    }
    buf_free(&rewriter.plain);
    free(rewriter.keys);
    return ret->failed ? -ENOMEM : r > 0 ? -EEXIST : r;
}
