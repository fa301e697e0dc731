/* Capabilities by the kernel's names. */
#pragma once

/* "CAP_NET_BIND_SERVICE"; NULL: none that was known when this was built. */
const char *capability_name(unsigned number);
/* The number of "CAP_NET_BIND_SERVICE", or -1. */
int capability_number(const char *name);
