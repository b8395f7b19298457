#!/bin/bash
# The agent never sees this check.
reward=0
if python3 -c 'from shop import total; assert total([100, 100], 0.25) == 150 and total([1]) == 1'; then
  reward=1
fi
echo "$reward" > "$LOGS_DIR/verifier/reward.txt"
