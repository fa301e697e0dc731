/* Policies of other launchers: the first byte says which format, the rest is the file. What is refused is
 * refused with the file and a sentence; what is imported loads as a policy, which policy_import() sees to,
 * and names no call that the file does not. */
#include <string.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "policy/import/import.h"
#include "tests/fuzz/fuzz.h"

#define ORIGIN "file"

void fuzz_one(const uint8_t *data, size_t size)
{
    static const char *const formats[] = {"nsjail", "docker", "systemd", "minijail"};
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    CLEANUP(buf_free) struct buf notes = BUF_INIT;
    struct err err = {0};
    if (size == 0) {
        return;
    }
    const struct import_request request = {
        .format = import_format_find(formats[data[0] % ARRAY_SIZE(formats)]),
        .path = ORIGIN,
        .text = (const char *)data + 1,
        .size = size - 1,
        .with_libc = data[0] & 0x80,
        .alone = true,
    };
    int r = policy_import(&request, &text, &notes, &err);
    if (r < 0) {
        REQUIRE(err.kind == ERR_CONFIG && err.text[0] != '\0' && err.item[0] != '\0');
        REQUIRE(text.len == 0 && notes.len == 0);
        return;
    }
    REQUIRE(r == 0 && !err_is_set(&err) && text.len > 0);
    /* Of what nobody's text can name here, nothing is let through but by a default that allows. */
    bool named = memmem(request.text, request.size, "ptrace", 6) ||
                 memmem(request.text, request.size, "@", 1) ||
                 memmem(request.text, request.size, "SYSCALL", 7) ||
                 memmem(request.text, request.size, "#", 1) || memmem(request.text, request.size, "101", 3);
    REQUIRE(named || !strstr(text.data, "\"ptrace\""));
}
