/* What GET /metrics tells besides what each part counts itself. */
#pragma once

struct front;

/* Every series of a closed set, at 0, and what stays as it is. Its configuration is there. */
/* Teams may have become others. */
void figures_of_teams(struct front *front);
void figures_begin(struct front *front);
/* What the warden has said last. */
void figures_of_state(struct front *front);
/* What is looked up when somebody asks. */
void figures_of_now(struct front *front);
