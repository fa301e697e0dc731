#!/bin/bash
# Draw a chart with matplotlib and save the picture.
# Needs: python3-matplotlib of Debian. The argument is where the picture goes: chart/run.sh /tmp/chart.png
cd "$(dirname "$0")" && . ../serve.sh
serve server.textproto

jq -n --rawfile code chart.py '{language: "charts", $code, outputs: ["chart.png"]}' |
    curl -sS -u ":$IMMURE_KEY" "$IMMURE_URL/execute" --json @- >"$work/reply.json"
jq -c '{status, stdout, files: [.files[] | {name, mime}]}' "$work/reply.json"

picture=${1:-$work/chart.png}
jq -r '.files[0].data' "$work/reply.json" | base64 -d >"$picture"
head -c 4 "$picture" | tail -c 3 # a PNG file begins so
