/* Hashes, base64 and comparison of secrets, all of it nettle's. Runs in every process; holds no state. */
#include "config/digest.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include <nettle/base64.h>
#include <nettle/memops.h>
#include <nettle/sha2.h>

#include "jail/base/buf.h"

_Static_assert(SHA256_BYTES == SHA256_DIGEST_SIZE, "nettle's SHA-256 has another size");

void sha256_of(const void *data, size_t size, unsigned char ret[SHA256_BYTES])
{
    struct sha256_ctx ctx;
    sha256_init(&ctx);
    sha256_update(&ctx, size, data);
    sha256_digest(&ctx, SHA256_BYTES, ret);
}

static const char hex_digits[] = "0123456789abcdef";

void sha256_to_hex(const unsigned char hash[SHA256_BYTES], char ret[SHA256_HEX])
{
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        ret[2 * i] = hex_digits[hash[i] >> 4];
        ret[2 * i + 1] = hex_digits[hash[i] & 15];
    }
    ret[SHA256_HEX - 1] = '\0';
}

int sha256_from_hex(const char *hex, unsigned char ret[SHA256_BYTES])
{
    unsigned char hash[SHA256_BYTES] = {0};
    if (strlen(hex) != SHA256_HEX - 1) {
        return -EINVAL;
    }
    for (size_t i = 0; i < SHA256_HEX - 1; i++) {
        const char *digit = strchr(hex_digits, tolower((unsigned char)hex[i]));
        if (!digit) {
            return -EINVAL;
        }
        hash[i / 2] = (unsigned char)(hash[i / 2] << 4 | (digit - hex_digits));
    }
    memcpy(ret, hash, sizeof hash);
    return 0;
}

void sha256_hex_of(const void *data, size_t size, char ret[SHA256_HEX])
{
    unsigned char digest[SHA256_BYTES];
    sha256_of(data, size, digest);
    sha256_to_hex(digest, ret);
}

bool secure_equal(const void *a, const void *b, size_t size)
{
    return memeql_sec(a, b, size) != 0;
}

int base64_encode(const void *data, size_t size, struct buf *ret)
{
    if (size > SIZE_MAX / 2) {
        return -ENOMEM;
    }
    size_t len = BASE64_ENCODE_RAW_LENGTH(size);
    char *to = buf_reserve(ret, len);
    if (!to) {
        return -ENOMEM;
    }
    base64_encode_raw(to, size, data);
    ret->len += len;
    ret->data[ret->len] = '\0';
    return 0;
}

/* Letters in whole groups of four, then at most two '='. nettle itself would skip white space, let padding
 * run on, and accept a text that stops short of its padding. */
static bool base64_is_well_formed(const char *text, size_t len)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static const size_t padding_max = 2;
    bool known[256] = {false};
    for (const char *c = letters; *c; c++) {
        known[(unsigned char)*c] = true;
    }
    if (len % 4 != 0) {
        return false;
    }
    size_t end = len;
    while (end > 0 && text[end - 1] == '=' && len - end < padding_max) {
        end--;
    }
    for (size_t i = 0; i < end; i++) {
        if (!known[(unsigned char)text[i]]) {
            return false;
        }
    }
    return true;
}

int base64_decode(const char *text, size_t len, struct buf *ret)
{
    if (!base64_is_well_formed(text, len)) {
        return -EINVAL;
    }
    char *to = buf_reserve(ret, BASE64_DECODE_LENGTH(len));
    if (!to) {
        return -ENOMEM;
    }
    struct base64_decode_ctx ctx;
    base64_decode_init(&ctx);
    size_t size = BASE64_DECODE_LENGTH(len);
    /* The final step also refuses bits behind the last whole byte: one content has one spelling. */
    if (!base64_decode_update(&ctx, &size, (uint8_t *)to, len, text) || !base64_decode_final(&ctx)) {
        ret->data[ret->len] = '\0';
        return -EINVAL;
    }
    ret->len += size;
    ret->data[ret->len] = '\0';
    return 0;
}
