/* The schema everything.proto as protobuf-c describes it. */
#pragma once

struct ProtobufCMessageDescriptor;

extern const struct ProtobufCMessageDescriptor everything__everything__descriptor,
    everything__strict__descriptor, everything__choice__descriptor;
