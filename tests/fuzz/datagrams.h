/* An input of several messages: each a byte of how many descriptors come along, two of its length, the
 * message. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct datagram {
    const uint8_t *data;
    size_t size;
    size_t n_fds;
};

#define DATAGRAM_FDS_MAX 8

/* Takes the next one off. A length past the end is cut there. */
bool datagram_next(const uint8_t **data, size_t *size, struct datagram *ret);

/* A custom mutator: `change` (of data, size and room; it returns the new size) gets one of the messages at
 * times, and the whole input is changed as bytes at other times. */
typedef size_t (*datagram_change_fn)(uint8_t *data, size_t size, size_t max_size, uint64_t *series);
size_t datagrams_mutate(datagram_change_fn change, uint8_t *data, size_t size, size_t max_size,
                        unsigned seed);

/* Sends it over a socket, with that many descriptors of nothing. */
void datagram_send(int sock, const struct datagram *datagram);
