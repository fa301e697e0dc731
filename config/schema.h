/* The schemas as protobuf-c describes them, for those who walk messages without naming their fields. */
#pragma once

struct ProtobufCMessageDescriptor;

extern const struct ProtobufCMessageDescriptor immure__server__descriptor; /* config/server.proto */
extern const struct ProtobufCMessageDescriptor immure__policy__descriptor; /* config/policy.proto */
extern const struct ProtobufCMessageDescriptor immure__msg__descriptor;    /* config/message/message.proto */
