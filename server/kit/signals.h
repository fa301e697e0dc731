/* Names of signals. */
#pragma once

/* "SIGSEGV", or "SIG34" for one without a name, into `ret`. */
#define SIGNAL_NAME_BYTES 16
const char *signal_name(int number, char ret[SIGNAL_NAME_BYTES]);
