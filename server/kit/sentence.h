/* All that an error holds, as one sentence for people. */
#pragma once

#include <stddef.h>

struct err;

/* "step 7 (bind /usr): open_tree: Permission denied", "server.textproto:3:7: no such field"; `size` of 1024
 * fits all. */
#define SENTENCE_BYTES 1024
void sentence_of(const struct err *err, char ret[SENTENCE_BYTES]);

/* How operators give a process more descriptors. */
#define SENTENCE_RAISE_OPEN_FILES                                                                            \
    "raise it (systemd: LimitNOFILE=, containers: --ulimit nofile=, shells: ulimit -n)"
