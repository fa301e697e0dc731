/* A hexadecimal digit, for everyone who reads escapes, hashes and sizes. */
#pragma once

/* Its value; -1: it is none. */
static inline int hex_digit(int c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}
