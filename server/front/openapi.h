/* The description of the HTTP interface: server/front/openapi.json, part of the binary. */
#pragma once

#include <stddef.h>

const char *openapi_data(void);
size_t openapi_size(void);
