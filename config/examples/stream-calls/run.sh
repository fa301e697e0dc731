#!/bin/bash
# Let a program call functions of yours. Calls come over the reply's stream, so that nothing of yours needs to listen.
cd "$(dirname "$0")" && . ../serve.sh
serve

PYTHONPATH=../../../server/clients/python python3 caller.py
