/* What a template does before its first fork, so that its forks need not. */
#pragma once

/* Runs rehearsal.py a few times. -1 with a Python exception set where that fails. */
int rehearse(void);
