/* struct policy_spec as C. */
#pragma once

struct policy_spec;

/* Prints an initializer of the spec, from brace to brace. */
void spec_source_put(const struct policy_spec *spec);
