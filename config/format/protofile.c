/* Configuration files as messages, whichever form they are written in. Runs in the warden and the command
 * line. */
#include "config/format/protofile.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include <protobuf-c/protobuf-c.h>

#include "config/format/source.h"
#include "config/format/textformat.h"
#include "config/format/wire.h"
#include "jail/base/buf.h"
#include "jail/base/err.h"
#include "jail/base/io.h"

int protofile_read(const char *path, struct buf *ret, struct err *reterr)
{
    if (path[0] == '\0') {
        return err_set(reterr, ERR_CONFIG, ENOENT, "\"\"", "is the path of no file");
    }
    int r = io_read_file_at(AT_FDCWD, path, PROTOFILE_BYTES_MAX, ret);
    if (r < 0) {
        char why[IO_PATH_ERROR_BYTES];
        return err_set(reterr, ERR_CONFIG, -r, path, "cannot be read: %s", io_path_error(path, -r, why));
    }
    return 0;
}

static int decode_binary(const ProtobufCMessageDescriptor *descriptor, const char *name, const char *data,
                         size_t size, ProtobufCMessage **ret, struct err *reterr)
{
    int r = wire_unpack(descriptor, data, size, NULL, ret);
    if (r == -ENOMEM) {
        return err_errno(reterr, ENOMEM, "while reading %s", name);
    }
    if (r < 0) {
        return err_set(
            reterr, ERR_CONFIG, EINVAL, name,
            "is not a binary %s as protoc writes it (all required fields, no unknown ones, in order)",
            descriptor->short_name);
    }
    return 0;
}

int protofile_decode(const ProtobufCMessageDescriptor *descriptor, struct source *source, const char *data,
                     size_t size, ProtobufCMessage **ret, struct err *reterr)
{
    const char *name = source->name;
    const char *slash = strrchr(name, '/');
    const char *extension = strrchr(slash ? slash : name, '.');
    if (extension && strcmp(extension, ".json") == 0) {
        return jsonformat_parse(descriptor, source, data, size, ret, reterr);
    }
    if (extension && strcmp(extension, ".binpb") == 0) {
        return decode_binary(descriptor, source->name, data, size, ret, reterr);
    }
    return textformat_parse(descriptor, source, data, size, ret, reterr);
}
