#!/bin/sh
# Tests of the adapters against the libraries themselves, in two environments over .venv: verifiers and openenv need
# different versions of mcp. No network once they are made.
# usage: scripts/test-adapters.sh [pytest options]
set -eu
cd "$(dirname "$0")/.."
scripts/extra-env.sh adapters "$@"
exec scripts/extra-env.sh verifiers "$@"
