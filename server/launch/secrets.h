/* Files of the host that hold secrets. */
#pragma once

/* What of the host's secrets a mount of `path` (absolute, without links) would show, as the rest of a
 * sentence: "it lies in /etc/ssh, which ...". NULL: nothing that is known. `home`: of whoever asks, NULL: not
 * known. The text is in `ret`. */
#define SECRETS_TEXT_BYTES 4352
const char *secrets_shown_by(const char *path, const char *home, char ret[SECRETS_TEXT_BYTES]);
