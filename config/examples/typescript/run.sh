#!/bin/bash
# Evaluate a module in TypeScript that can do nothing but call functions of yours.
# Needs: nodejs and esbuild of Debian.
cd "$(dirname "$0")" && . ../serve.sh
serve

node caller.mjs
