/* Finds certificates. Runs in the front, before it is confined: later it can open no file. */
#include "server/host/certificates.h"

#include <fcntl.h>
#include <string.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"

static const char *const ca_files[] = {
    "/etc/ssl/certs/ca-certificates.crt", /* Debian, Alpine, Arch */
    "/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora */
    "/etc/ssl/ca-bundle.pem",             /* SUSE */
};

int certificates_read(const char *own, const char *field, struct buf *ret, struct err *reterr)
{
    if (*own) {
        char why[IO_PATH_ERROR_BYTES];
        int r = io_read_file_at(AT_FDCWD, own, CERTIFICATES_BYTES_MAX, ret);
        return r < 0 ? err_set(reterr, ERR_CONFIG, -r, field, "\"%s\" cannot be read: %s", own,
                               io_path_error(own, -r, why))
                     : 0;
    }
    for (size_t i = 0; i < ARRAY_SIZE(ca_files); i++) {
        if (io_read_file_at(AT_FDCWD, ca_files[i], CERTIFICATES_BYTES_MAX, ret) == 0) {
            return 0;
        }
        buf_free(ret);
    }
    return 0;
}
