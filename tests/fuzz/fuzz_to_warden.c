/* What the warden hears from a front that says anything. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/messages.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return messages_mutate(data, size, max_size, seed);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    messages_run(CHANNEL_WARDEN, data, size);
}
