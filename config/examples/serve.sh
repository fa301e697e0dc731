# shellcheck shell=bash
# What the recipes share. Sourced in the recipe's directory, never run.
#
#   serve          uses the server at IMMURE_URL with the key IMMURE_KEY, or starts one as it is shipped
#   serve FILE     starts a server with this configuration
#
# A server that is started here takes a free port and a new key, sets IMMURE_URL and IMMURE_KEY, and ends with the recipe.
set -euo pipefail
command -v immure >/dev/null || PATH=$(realpath ../../../build):$PATH # in a clone

# For files of the recipe. Not in /tmp: of that each job has its own, and the host's is shown to none.
work=$(mktemp -d -p /var/tmp)
chmod 755 "$work"

# At the end: the server, and whatever else the recipe has left running.
clean_up()
{
    local running
    mapfile -t running < <(jobs -p)
    kill "${running[@]}" 2>/dev/null || true
    wait
    rm -rf "$work"
}
trap clean_up EXIT

serve()
{
    if [[ $# -eq 0 && -n ${IMMURE_URL:-} ]]; then
        return
    fi
    IMMURE_KEY=$(od -An -tx1 -N 24 /dev/urandom | tr -d ' \n')
    : >"$work/log"
    SANDBOX_EXECUTOR_SERVICE_API_KEY=$IMMURE_KEY SANDBOX_EXECUTOR_ADDR=127.0.0.1:0 \
        SANDBOX_EXECUTOR_CGROUP=${SANDBOX_EXECUTOR_CGROUP:-BEST_EFFORT} immure serve ${1:+--config "$1"} 2>"$work/log" &
    local server=$!
    until IMMURE_URL=http://$(sed -n 's/.* event=listening address=\([^ ]*\) .*/\1/p' "$work/log") &&
        curl -fs -o "$work/ready" "$IMMURE_URL/readyz"; do
        if ! kill -0 "$server" 2>/dev/null; then
            cat "$work/log" >&2
            exit 1
        fi
        sleep 0.1
    done
    export IMMURE_URL IMMURE_KEY
}
