#!/bin/bash
# Send a file along and take one back.
cd "$(dirname "$0")" && . ../serve.sh
serve

jq -n --rawfile code average.py --rawfile csv scores.csv '{$code, files: [{name: "scores.csv", content: $csv}], outputs: ["*.json"]}' |
    curl -sS -u ":$IMMURE_KEY" "$IMMURE_URL/execute" --json @- >"$work/reply.json"
jq -c '{status, files: [.files[] | {name, mime}]}' "$work/reply.json"
jq -r '.files[0].data | @base64d' "$work/reply.json"
