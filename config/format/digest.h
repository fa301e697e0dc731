/* SHA-256, its HMAC, base64 and constant-time comparison, through nettle: the only file that includes it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

#define SHA256_BYTES 32
#define SHA256_HEX   65 /* with the NUL */

void sha256_of(const void *data, size_t size, unsigned char ret[SHA256_BYTES]);
void sha256_to_hex(const unsigned char hash[SHA256_BYTES], char ret[SHA256_HEX]);
/* -EINVAL for what is not 64 hexadecimal digits. */
int sha256_from_hex(const char *hex, unsigned char ret[SHA256_BYTES]);
void sha256_hex_of(const void *data, size_t size, char ret[SHA256_HEX]);
/* HMAC-SHA256 of RFC 2104. */
void hmac_sha256_hex_of(const char *key, const void *data, size_t size, char ret[SHA256_HEX]);

/* True if equal; time does not depend on where they differ. */
bool secure_equal(const void *a, const void *b, size_t size);

/* Appends. Strict decoding: standard alphabet, right padding, nothing else (-EINVAL). */
int base64_encode(const void *data, size_t size, struct buf *ret);
int base64_decode(const char *text, size_t len, struct buf *ret);
