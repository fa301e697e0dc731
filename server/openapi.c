/* server/openapi.json as it is, put into the binary by the assembler. Compiled from the top of the tree, like
 * everything. */
#include "server/openapi.h"

__asm__(".pushsection .rodata\n"
        "immure_openapi_begin:\n"
        ".incbin \"server/openapi.json\"\n"
        "immure_openapi_end:\n"
        ".popsection\n");

extern const char immure_openapi_begin[], immure_openapi_end[];

const char *openapi_data(void)
{
    return immure_openapi_begin;
}

size_t openapi_size(void)
{
    return (size_t)(immure_openapi_end - immure_openapi_begin);
}
