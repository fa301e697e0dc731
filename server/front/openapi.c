/* server/front/openapi.json as it is, put into the binary by the assembler. Compiled from the top of the
 * tree, like everything. */
#include "server/front/openapi.h"

#include <stdint.h>

__asm__(".pushsection .rodata\n"
        ".balign 8\n"
        "immure_openapi_size: .quad immure_openapi_end - immure_openapi_data\n"
        "immure_openapi_data: .incbin \"server/front/openapi.json\"\n"
        "immure_openapi_end:\n"
        ".popsection\n");

extern const uint64_t immure_openapi_size;
extern const char immure_openapi_data[];

const char *openapi_data(void)
{
    return immure_openapi_data;
}

size_t openapi_size(void)
{
    return immure_openapi_size;
}
