/* Capabilities as a policy names them, and what is dangerous about some. */
#pragma once

/* The number of "CAP_NET_BIND_SERVICE", or -1. */
int capability_number(const char *name);
/* What a program could do to the jail itself if it kept this capability; NULL: nothing that is known. */
const char *capability_danger(int number);
/* The nearest name to a mistyped one, or NULL. */
const char *capability_did_you_mean(const char *name);
