/* What all doors share. Runs in the front. */
#include "server/doors/door.h"

#include <stdlib.h>

#include "config/message/job.h"

void execute_request_clear(struct execute_request *request)
{
    job_free(request->job);
    input_clear(&request->input);
    free(request->stdin_data);
    free(request->callback_url);
    if (request->state) {
        request->door->state_free(request->state);
    }
    *request = EXECUTE_REQUEST_INIT;
}
