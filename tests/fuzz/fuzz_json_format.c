/* JSON into messages. */
#include <stdbool.h>

#include "tests/config/everything.h"
#include "tests/fuzz/formats.h"
#include "tests/fuzz/fuzz.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return formats_mutate(&everything__everything__descriptor, true, data, size, max_size, seed);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    formats_one(&everything__everything__descriptor, true, data, size);
}
