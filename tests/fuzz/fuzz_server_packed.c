/* The packed configuration as the front takes it from the warden: what is accepted is what the warden would
 * have written. */
#include <string.h>

#include "config/server/config.h"
#include "config/server/server.pb-c.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    uint64_t series = seed;
    return mutate_packed(&immure__server__descriptor, data, size, max_size, &series);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    CLEANUP(buf_free) struct buf packed = BUF_INIT, again = BUF_INIT;
    struct server_config *config = NULL, *decoded = NULL;
    struct err err = {0};
    int r = server_config_decode(data, size, &config, &err);
    if (r < 0) {
        REQUIRE(!config && (err.kind == ERR_INVALID || err.kind == ERR_CONFIG) && err.text[0] != '\0');
        return;
    }
    /* Defaults that were left out are written out: the second round is the one that changes nothing. */
    REQUIRE(server_config_encode(config, &packed, &err) == 0);
    REQUIRE(server_config_decode(packed.data, packed.len, &decoded, &err) == 0);
    REQUIRE(server_config_encode(decoded, &again, &err) == 0);
    REQUIRE(packed.len == again.len && memcmp(packed.data, again.data, packed.len) == 0);
    server_config_free(decoded);
    server_config_free(config);
}
