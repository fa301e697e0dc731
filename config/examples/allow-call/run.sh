#!/bin/bash
# Allow a system call that a program was denied. The reply's hint has the rule; it goes into a policy, and that gets a test.
cd "$(dirname "$0")" && . ../serve.sh
serve server.textproto

for policy in strict pipes; do
    curl -sS -u ":$IMMURE_KEY" "$IMMURE_URL/execute" --json \
        "{\"policy\": \"$policy\", \"code\": \"import os\nos.mkfifo('pipe')\"}" |
        jq -r '"\(.policy): \(.status)", .hint // "nothing was denied"'
done
immure policy lint policies/pipes.textproto
immure policy test pipes.test.textproto
