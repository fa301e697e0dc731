/* No policies: what tests, and the tool that makes the real table, are linked with. */
#include "policy/embedded.h"

const struct embedded_policy policy_embedded[] = {{.name = NULL}};
