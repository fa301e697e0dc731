#!/bin/bash
# Give two callers keys of their own: one may use every policy, the other only `strict`. Then take one key away.
cd "$(dirname "$0")" && . ../serve.sh
keys=$work/keys.textproto
agents=$(immure key add agents --file "$keys" --policy '*')
reports=$(immure key add reports --file "$keys" --policy strict --max-jobs-per-minute 60)
sed "s|/etc/immure/keys.textproto|$keys|" server.textproto >"$work/server.textproto"
serve "$work/server.textproto"

# job KEY POLICY: -> the status of the job, or the error
job()
{
    curl -sS -u ":$1" "$IMMURE_URL/execute" --json "{\"code\": \"print(1)\", \"policy\": \"$2\"}" | jq -r '.status // .error'
}
echo "agents, python: $(job "$agents" python)"
echo "reports, strict: $(job "$reports" strict)"
echo "reports, python: $(job "$reports" python)"

immure key revoke reports --file "$keys"
until [[ $(curl -s -o "$work/reply" -w '%{http_code}' -u ":$reports" "$IMMURE_URL/policies") = 401 ]]; do
    sleep 0.1
done
echo "reports is no key any more"
