/* Reads protobuf text format or JSON with the program's own readers and writes the packed message: `protoc
 * --encode` to be held against it.
 *
 *   textproto2bin MESSAGE < text > binary        one input; exit 1 and the error on stderr where it is
 * refused textproto2bin --batch MESSAGE < frames       many: each a 32-bit little-endian length and that many
 * bytes; each answered by one status byte (0 or 1), a length, and the packed bytes or the error's text
 *   --json in front of MESSAGE                   inputs are JSON */
#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <protobuf-c/protobuf-c.h>

#include "config/format/source.h"
#include "config/format/textformat.h"
#include "config/format/wire.h"
#include "config/policy/policy.pb-c.h"
#include "config/server/server.pb-c.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "tests/config/everything.h"

#define INPUT_MAX (64u << 20)

typedef int (*reader)(const ProtobufCMessageDescriptor *, struct source *, const char *, size_t,
                      ProtobufCMessage **, struct err *);

static const ProtobufCMessageDescriptor *const messages[] = {
    &everything__everything__descriptor, &everything__strict__descriptor, &everything__choice__descriptor,
    &immure__server__descriptor,         &immure__policy__descriptor,
};

static const ProtobufCMessageDescriptor *find(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(messages); i++) {
        if (strcmp(messages[i]->name, name) == 0) {
            return messages[i];
        }
    }
    return NULL;
}

/* Appends the packed message or the error's text to `ret`; returns the status. */
static int convert(reader read, const ProtobufCMessageDescriptor *descriptor, const char *text, size_t size,
                   struct buf *ret)
{
    struct err err = {0};
    ProtobufCMessage *message = NULL;
    CLEANUP(source_free) struct source source = SOURCE_NAMED("input");
    if (read(descriptor, &source, text, size, &message, &err) < 0) {
        buf_printf(ret, "%s: %s", err.item, err.text);
        return 1;
    }
    int r = wire_pack(message, ret);
    protobuf_c_message_free_unpacked(message, NULL);
    return r < 0;
}

static int convert_one(reader read, const ProtobufCMessageDescriptor *descriptor)
{
    CLEANUP(buf_free) struct buf input = BUF_INIT, output = BUF_INIT;
    if (io_read_fd(STDIN_FILENO, INPUT_MAX, &input) < 0) {
        perror("textproto2bin");
        return 1;
    }
    int status = convert(read, descriptor, input.data ? input.data : "", input.len, &output);
    if (status != 0) {
        fprintf(stderr, "%s\n", output.data);
        return status;
    }
    return io_write_full(STDOUT_FILENO, output.data ? output.data : "", output.len) < 0;
}

static int convert_batch(reader read, const ProtobufCMessageDescriptor *descriptor)
{
    uint32_t size;
    CLEANUP(buf_free) struct buf answers = BUF_INIT;
    for (;;) {
        CLEANUP(buf_free) struct buf input = BUF_INIT, output = BUF_INIT;
        ssize_t n = io_read_full(STDIN_FILENO, &size, sizeof size);
        if (n == 0) {
            return io_write_full(STDOUT_FILENO, answers.data ? answers.data : "", answers.len) < 0;
        }
        char *to = n == sizeof size && le32toh(size) <= INPUT_MAX ? buf_reserve(&input, le32toh(size)) : NULL;
        if (!to || io_read_full(STDIN_FILENO, to, le32toh(size)) != (ssize_t)le32toh(size)) {
            fprintf(stderr, "textproto2bin: a frame is cut short\n");
            return 1;
        }
        int status = convert(read, descriptor, to, le32toh(size), &output);
        uint32_t len = htole32((uint32_t)output.len);
        buf_putc(&answers, (char)status);
        buf_append(&answers, &len, sizeof len);
        buf_append(&answers, output.data, output.len);
    }
}

int main(int argc, char **argv)
{
    bool batch = false;
    reader read = textformat_parse;
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--batch") == 0) {
            batch = true;
        } else if (strcmp(argv[i], "--json") == 0) {
            read = jsonformat_parse;
        } else {
            break;
        }
    }
    const ProtobufCMessageDescriptor *descriptor = i + 1 == argc ? find(argv[i]) : NULL;
    if (!descriptor) {
        fprintf(stderr, "usage: textproto2bin [--batch] [--json] MESSAGE\n");
        return 2;
    }
    return batch ? convert_batch(read, descriptor) : convert_one(read, descriptor);
}
