/* GET /runtimes and GET /policies. */
#pragma once

struct front;
struct request;

void handle_runtimes(struct request *request);
/* Optional runtimes whose self-test fails are not offered; when it does not fail any more, they are. */
void catalogue_take_state(struct front *front);
void handle_policies(struct request *request);
/* The same in the words of other interfaces. */
void handle_piston_runtimes(struct request *request);
void handle_dify_dependencies(struct request *request);
