/* One configuration file, in whichever of its three forms, as a message. */
#pragma once

#include <stddef.h>

struct ProtobufCMessage;
struct ProtobufCMessageDescriptor;
struct buf;
struct err;
struct source;

#define PROTOFILE_BYTES_MAX (16u << 20)

/* Appends the file's bytes. ERR_CONFIG naming the path. */
int protofile_read(const char *path, struct buf *ret, struct err *reterr);

/* The form is told by the name's extension: ".json", ".binpb", anything else is text. ERR_CONFIG naming the
 * file and, but for binary, line and column. protobuf_c_message_free_unpacked() frees the message. */
int protofile_decode(const struct ProtobufCMessageDescriptor *descriptor, struct source *source,
                     const char *data, size_t size, struct ProtobufCMessage **ret, struct err *reterr);
