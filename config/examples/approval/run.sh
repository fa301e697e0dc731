#!/bin/bash
# Have somebody look at a job before it runs. At a terminal that is `immure approve`; here it is done over HTTP.
cd "$(dirname "$0")" && . ../serve.sh
keys=$work/keys.textproto
agent=$(immure key add agent --file "$keys" --policy reviewed)
approver=$(immure key add approver --file "$keys" --approver)
sed "s|/etc/immure/keys.textproto|$keys|" server.textproto >"$work/server.textproto"
serve "$work/server.textproto"

id=$(curl -sS -u ":$agent" "$IMMURE_URL/execute" --json '{"policy": "reviewed", "code": "print(6 * 7)"}' | jq -r .approval_id)
curl -sS -u ":$approver" "$IMMURE_URL/approvals/$id" | jq -c '{status, key, policy, code}'
curl -sS -u ":$approver" "$IMMURE_URL/approvals/$id" --json '{"decision": "approve", "reason": "harmless"}' | jq -c '{decided_by, reason}'

until [[ $(curl -sS -u ":$agent" "$IMMURE_URL/approvals/$id" | jq -r .status) = "done" ]]; do
    sleep 0.1
done
curl -sS -u ":$agent" "$IMMURE_URL/jobs/$id" | jq -c '.reply | {status, stdout}'
