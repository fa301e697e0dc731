/* What a program's last exception means. */
#pragma once

#include <stdbool.h>

struct python;

/* With an exception pending, which is gone then: puts into `*ret` what the process is to exit with. True
 * where it was a SystemExit; else it has been shown, as sys.excepthook shows it. */
bool exit_end(const struct python *python, int *ret);
