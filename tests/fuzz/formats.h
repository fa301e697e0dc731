/* The three forms that a message can be written in, held against each other. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ProtobufCMessage;
struct ProtobufCMessageDescriptor;

/* Written as binary, as text and, where JSON can say it, as JSON, and read again, it is the same message. */
void formats_require_round_trip(const struct ProtobufCMessage *message);

/* Reads the input as a file of that name, in the form that its ending says. What is read makes the round
 * trip; what is refused is refused at a place inside the text. */
void formats_one(const struct ProtobufCMessageDescriptor *descriptor, bool json, const uint8_t *data,
                 size_t size);

/* A custom mutator for text format or JSON: changes the message in some of its tries, the bytes in others. */
size_t formats_mutate(const struct ProtobufCMessageDescriptor *descriptor, bool json, uint8_t *data,
                      size_t size, size_t max_size, unsigned seed);
