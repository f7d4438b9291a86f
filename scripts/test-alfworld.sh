#!/bin/sh
# Tests against the real TextWorld/ALFWorld engine: own environment over .venv, no network once it is made.
# usage: scripts/test-alfworld.sh [pytest options]
# Released games are found through TURNPOINT_SHARED (default: ../shared); without them the tests fail.
set -eu
cd "$(dirname "$0")/.."
exec scripts/extra-env.sh alfworld "$@"
