#!/bin/bash
# Run Ruby. Any other interpreter works in the same way.
# Needs: ruby of Debian.
cd "$(dirname "$0")" && . ../serve.sh
serve server.textproto

jq -n --rawfile code words.rb '{language: "ruby", $code, stdin: "to be or not to be"}' |
    curl -sS -u ":$IMMURE_KEY" "$IMMURE_URL/execute" --json @- | jq -j '.stdout, .stderr'
