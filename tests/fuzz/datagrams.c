/* Inputs of several messages, for the targets that hold a conversation. */
#include "tests/fuzz/datagrams.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/io.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"

#define HEAD_BYTES 3

bool datagram_next(const uint8_t **data, size_t *size, struct datagram *ret)
{
    if (*size < HEAD_BYTES) {
        return false;
    }
    const uint8_t *head = *data;
    size_t length = (size_t)head[1] | (size_t)head[2] << 8, left = *size - HEAD_BYTES;
    *ret = (struct datagram){.data = head + HEAD_BYTES,
                             .size = length < left ? length : left,
                             .n_fds = head[0] % (DATAGRAM_FDS_MAX + 1)};
    *data += HEAD_BYTES + ret->size;
    *size -= HEAD_BYTES + ret->size;
    return true;
}

/* Changes the message that begins at `at`, in place; what follows it moves. */
static size_t mutate_one(datagram_change_fn change, uint8_t *data, size_t size, size_t max_size,
                         const struct datagram *one, uint64_t *series)
{
    size_t room = one->size + (max_size - size), at = (size_t)(one->data - data);
    size_t rest = size - at - one->size;
    room = room < UINT16_MAX ? room : UINT16_MAX;
    CLEANUP(freep) uint8_t *message = malloc(room > 0 ? room : 1);
    REQUIRE(message);
    memcpy(message, one->data, one->size);
    size_t changed = change(message, one->size, room, series);
    changed = changed < room ? changed : room;
    memmove(data + at + changed, data + at + one->size, rest);
    memcpy(data + at, message, changed);
    data[at - 2] = (uint8_t)changed;
    data[at - 1] = (uint8_t)(changed >> 8);
    return at + changed + rest;
}

size_t datagrams_mutate(datagram_change_fn change, uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    uint64_t series = seed;
    struct datagram one, chosen = {0};
    size = size < max_size ? size : max_size;
    const uint8_t *at = data;
    size_t left = size, n = 0;
    if (mutate_next(&series) % 4 == 0) {
        return LLVMFuzzerMutate(data, size, max_size);
    }
    while (datagram_next(&at, &left, &one)) {
        if (mutate_next(&series) % ++n == 0) {
            chosen = one;
        }
    }
    return n == 0 ? LLVMFuzzerMutate(data, size, max_size)
                  : mutate_one(change, data, size, max_size, &chosen, &series);
}

void datagram_send(int sock, const struct datagram *datagram)
{
    int fds[DATAGRAM_FDS_MAX];
    for (size_t i = 0; i < datagram->n_fds; i++) {
        fds[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
        REQUIRE(fds[i] >= 0);
    }
    REQUIRE(io_send_fds(sock, datagram->data, datagram->size, fds, datagram->n_fds) == 0);
    for (size_t i = 0; i < datagram->n_fds; i++) {
        close(fds[i]);
    }
}
