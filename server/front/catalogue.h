/* GET /runtimes and GET /policies. */
#pragma once

struct request;

void handle_runtimes(struct request *request);
void handle_policies(struct request *request);
