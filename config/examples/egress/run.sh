#!/bin/bash
# Let programs reach one host and no other. A server of this recipe stands for the host.
cd "$(dirname "$0")" && . ../serve.sh
python3 host.py >"$work/port" &
until [[ -s $work/port ]]; do sleep 0.1; done
port=$(<"$work/port")
cp -r policies server.textproto "$work/"
sed -i "s/8080/$port/" "$work/policies/fetch.textproto"
cd "$work"
serve server.textproto

for place in "localhost:$port" example.com; do
    jq -n --arg url "http://$place/" '{policy: "fetch", args: [$url], code: "import sys, urllib.request\nprint(urllib.request.urlopen(sys.argv[1]).read())"}' |
        curl -sS -u ":$IMMURE_KEY" "$IMMURE_URL/execute" --json @- | jq -r '.status, .stdout + (.stderr | split("\n")[-2] // "")'
done
