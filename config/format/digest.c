/* Hashes, base64 and comparison of secrets, all of it nettle's. Runs in every process; holds no state. */
#include "config/format/digest.h"

#include <errno.h>
#include <string.h>

#include <nettle/base64.h>
#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <nettle/sha2.h>

#include "config/format/hex_digit.h"
#include "jail/base/buf.h"

_Static_assert(SHA256_BYTES == SHA256_DIGEST_SIZE, "nettle's SHA-256 has another size");

void sha256_of(const void *data, size_t size, unsigned char ret[SHA256_BYTES])
{
    struct sha256_ctx ctx;
    sha256_init(&ctx);
    sha256_update(&ctx, size, data);
    sha256_digest(&ctx, SHA256_BYTES, ret);
}

void sha256_to_hex(const unsigned char hash[SHA256_BYTES], char ret[SHA256_HEX])
{
    static const char hex_digits[] = "0123456789abcdef";
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
        int digit = hex_digit(hex[i]);
        if (digit < 0) {
            return -EINVAL;
        }
        hash[i / 2] = (unsigned char)(hash[i / 2] << 4 | digit);
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

void hmac_sha256_hex_of(const char *key, const void *data, size_t size, char ret[SHA256_HEX])
{
    struct hmac_sha256_ctx ctx;
    unsigned char digest[SHA256_BYTES];
    hmac_sha256_set_key(&ctx, strlen(key), (const uint8_t *)key);
    hmac_sha256_update(&ctx, size, data);
    hmac_sha256_digest(&ctx, SHA256_BYTES, digest);
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

/* What six bits each letter stands for; NONE: it is no letter. */
enum { NONE = 0xff };

static void read_alphabet(unsigned char ret[256])
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    memset(ret, NONE, 256);
    for (unsigned i = 0; letters[i]; i++) {
        ret[(unsigned char)letters[i]] = (unsigned char)i;
    }
}

/* The last group of four: `n` letters and padding. Its spare bits must be 0: one content has one spelling. */
static int decode_last(const unsigned char value[256], const char *text, size_t n, unsigned char *to)
{
    uint32_t bits = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char six = value[(unsigned char)text[i]];
        if (six == NONE) {
            return -EINVAL;
        }
        bits |= (uint32_t)six << (18 - 6 * i);
    }
    for (size_t i = 0; i + 1 < n; i++) {
        to[i] = (unsigned char)(bits >> (16 - 8 * i));
    }
    return n < 2 || (n < 4 && (bits & (0xffffffu >> (8 * (n - 1)))) != 0) ? -EINVAL : 0;
}

/* Letters in whole groups of four, then at most two '='. (nettle would skip white space, let padding run on,
 * and accept a text that stops short of its padding; and it takes four times as long.) */
int base64_decode(const char *text, size_t len, struct buf *ret)
{
    unsigned char value[256];
    if (len % 4 != 0) {
        return -EINVAL;
    }
    unsigned char *to = (unsigned char *)buf_reserve(ret, len / 4 * 3);
    if (!to) {
        return -ENOMEM;
    }
    if (len == 0) {
        *to = '\0';
        return 0;
    }
    read_alphabet(value);
    size_t padding = text[len - 1] != '=' ? 0 : text[len - 2] != '=' ? 1 : 2, size = 0;
    unsigned char wrong = 0;
    for (size_t i = 0; i + 4 < len; i += 4, size += 3) {
        const unsigned char *four = (const unsigned char *)text + i;
        unsigned char a = value[four[0]], b = value[four[1]], c = value[four[2]], d = value[four[3]];
        wrong |= a | b | c | d; /* 0xc0 is in none but NONE */
        to[size] = (unsigned char)(a << 2 | b >> 4);
        to[size + 1] = (unsigned char)(b << 4 | c >> 2);
        to[size + 2] = (unsigned char)(c << 6 | d);
    }
    if ((wrong & 0xc0) != 0 || decode_last(value, text + len - 4, 4 - padding, to + size) < 0) {
        *to = '\0';
        return -EINVAL;
    }
    ret->len += size + 3 - padding;
    ret->data[ret->len] = '\0';
    return 0;
}
