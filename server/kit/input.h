/* struct input: a job's program and files in one anonymous file, as it goes to the warden. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct err;

/* Contents one behind the other; the program's text is the first. */
struct input {
    int fd; /* -1 before input_new() */
    uint64_t size;
};
int input_new(struct input *ret, struct err *reterr);
int input_append(struct input *input, const void *data, size_t size, struct err *reterr);
/* Nobody can change the contents any more. */
int input_seal(struct input *input, struct err *reterr);
void input_clear(struct input *input);
