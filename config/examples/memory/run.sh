#!/bin/bash
# Give jobs 2 GiB of memory. The shipped policy has 512 MiB, and a request can only lower what its policy gives.
cd "$(dirname "$0")" && . ../serve.sh
serve server.textproto

curl -sS -u ":$IMMURE_KEY" "$IMMURE_URL/execute" --json \
    '{"policy": "large", "code": "data = bytearray(1536 << 20)\nprint(len(data) >> 20, \"MiB\")"}' |
    jq -c '{status, stdout, memory_bytes: .limits.memory_bytes}'
