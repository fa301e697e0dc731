#!/bin/bash
# Let a program call functions of yours over HTTP: each call is a POST to your server. (stream-calls does without one.)
cd "$(dirname "$0")" && . ../serve.sh
python3 tools.py >"$work/port" &
until [[ -s $work/port ]]; do sleep 0.1; done
port=$(<"$work/port")
sed "s/8080/$port/" server.textproto >"$work/server.textproto"
serve "$work/server.textproto"

program='print(call_tool(\"temperature\", {\"city\": \"Oslo\"}), call_tool(\"temperature\", {\"city\": \"Cairo\"}))'
curl -sS -u ":$IMMURE_KEY" "$IMMURE_URL/execute" --json \
    "{\"code\": \"$program\", \"callback_url\": \"http://127.0.0.1:$port/tools\"}" | jq -c '{status, stdout}'
