/* Keys and teams that change while the front serves. Runs in the front, on what the warden sends.
 *
 * Whoever is known stays so, with its rate, its jobs, its connections and its place in every table. Whoever
 * is gone is nobody in the next request, over whatever connection; what it has begun goes on. */
#include "server/front/callers.h"

#include <errno.h>
#include <unistd.h>

#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "server/front/figures.h"
#include "server/http/http.h"
#include "server/jobs/decoder.h"
#include "server/jobs/dispatch.h"
#include "server/jobs/front_context.h"
#include "server/kit/log.h"

#define CONFIG_BYTES_MAX (16u << 20)

int callers_read_config(int fd, struct server_config **ret, struct err *reterr)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT;
    int r = lseek(fd, 0, SEEK_SET) < 0 ? -errno : io_read_fd(fd, CONFIG_BYTES_MAX, &data);
    if (r < 0) {
        return err_errno(reterr, -r, "reading the configuration");
    }
    return server_config_decode(data.data, data.len, ret, reterr);
}

size_t callers_unread_bytes(const struct server_config *config)
{
    uint64_t all = config->max_unread_bytes, own = config->max_unread_bytes_per_key;
    return (size_t)(own > 0 ? own : config->n_keys > 1 ? all / 2 : all);
}

int callers_take(struct front *front, int fd, struct err *reterr)
{
    struct server_config *config = front->config, *next = NULL;
    int r = callers_read_config(fd, &next, reterr);
    if (r < 0) {
        return r;
    }
    r = server_config_take_callers(config, next);
    server_config_free(next);
    r = r < 0 ? r : dispatch_set_keys(front->dispatch);
    r = r < 0 ? r : decoder_set_accounts(front->decoder, config->n_accounts);
    r = r < 0 ? r
              : http_server_set_keys(front->http, config->n_keys, config->n_accounts,
                                     callers_unread_bytes(config));
    if (r < 0) {
        return err_errno(reterr, -r, "taking other keys");
    }
    figures_of_teams(front);
    LOG(front->log, LOG_INFO, "keys_taken", LOG_FIELD_U64("keys", config->n_keys));
    return 0;
}
