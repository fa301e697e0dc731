/* Messages changed at random, field by field: what bytes changed at random hardly ever turn into. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct ProtobufCMessage;
struct ProtobufCMessageDescriptor;

/* The next of a series of numbers that looks random. */
uint32_t mutate_next(uint64_t *series);

/* One change to one field of the message or of one within it. Its memory is malloc's. */
void mutate_message(struct ProtobufCMessage *message, uint64_t *series);

/* A custom mutator for packed messages, which keeps them well-formed in half of its tries. */
size_t mutate_packed(const struct ProtobufCMessageDescriptor *descriptor, uint8_t *data, size_t size,
                     size_t max_size, uint64_t *series);
