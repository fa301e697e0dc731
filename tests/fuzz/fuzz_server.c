/* The server's configuration: from the file's text to the plain struct, and packed for the front and back,
 * where it must be the same. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/server/config.h"
#include "config/server/server.pb-c.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "tests/fuzz/formats.h"
#include "tests/fuzz/fuzz.h"

#define CONFIG_FD   100
#define CONFIG_FILE "/proc/self/fd/100"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return formats_mutate(&immure__server__descriptor, false, data, size, max_size, seed);
}

/* An anonymous file that the configuration is read from. */
static void write_file(const uint8_t *data, size_t size)
{
    int fd = memfd_create("config", MFD_CLOEXEC);
    REQUIRE(fd >= 0 && dup2(fd, CONFIG_FD) == CONFIG_FD);
    REQUIRE(size == 0 || pwrite(fd, data, size, 0) == (ssize_t)size);
    close(fd);
}

static void require_round_trip(const struct server_config *config)
{
    CLEANUP(buf_free) struct buf packed = BUF_INIT, again = BUF_INIT;
    struct server_config *decoded = NULL;
    struct err err = {0};
    REQUIRE(server_config_encode(config, &packed, &err) == 0);
    REQUIRE(server_config_decode(packed.data, packed.len, &decoded, &err) == 0);
    REQUIRE(server_config_encode(decoded, &again, &err) == 0);
    REQUIRE(packed.len == again.len && memcmp(packed.data, again.data, packed.len) == 0);
    REQUIRE(config->open == decoded->open && config->n_runtimes == decoded->n_runtimes);
    server_config_free(decoded);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    static char local[] = "SANDBOX_EXECUTOR_ENV=test"; /* where no key is needed */
    static char *const env[] = {local, NULL};
    struct server_config *config = NULL;
    struct err err = {0};
    write_file(data, size);
    int r = server_config_load(CONFIG_FILE, env, &config, &err);
    if (r < 0) {
        REQUIRE(!config);
        fuzz_require_file_refusal((struct expected_refusal){r, &err, data, size}, CONFIG_FILE, true);
        return;
    }
    REQUIRE(r == 0 && !err_is_set(&err));
    require_round_trip(config);
    server_config_free(config);
}
