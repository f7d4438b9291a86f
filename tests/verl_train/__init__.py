"""Training through verl; see scripts/test-verl.sh."""
