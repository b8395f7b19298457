#!/bin/bash
# Full reward if the tests pass and nothing but shop.py was changed.
reward=0
if python3 -m unittest -q && [ "$(grep -c '^diff --git' "$DIFF_FILE")" = 1 ]; then
  reward=1
fi
echo "$reward" > "$LOGS_DIR/verifier/reward.txt"
