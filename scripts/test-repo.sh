#!/bin/sh
# Repository repair in its real sandbox: needs bubblewrap and git, no network. Without them the tests fail.
# usage: scripts/test-repo.sh [pytest options]
set -eu
cd "$(dirname "$0")/.."
for program in bwrap git; do
  if ! command -v "$program" >/dev/null; then
    echo "$program was not found; install it (Debian: apt-get install bubblewrap git)" >&2
    exit 2
  fi
done
if [ ! -x .venv/bin/python ]; then
  echo "there is no .venv; run make setup first" >&2
  exit 2
fi
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
exec .venv/bin/python -m pytest -rs -m repo tests/real_repo "$@"
