/* What the front connects to: URLs of callbacks, package indexes, hosts of policies. */
#pragma once

struct err;
struct front;

/* Looks up names and reads certificates; before the front is confined. */
int outward_start(struct front *front, struct err *reterr);
/* After each round of the loop. */
void outward_run(struct front *front);
/* Also where it has not started. */
void outward_end(struct front *front);
