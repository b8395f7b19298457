#!/bin/bash
# The reward goes into verifier/reward.txt of the logs; in a container these are in /logs.
if [ "$(cat hello.txt)" = "Hello, world!" ]; then reward=1; else reward=0; fi
echo "$reward" > "${LOGS_DIR:-/logs}/verifier/reward.txt"
