#!/bin/sh
# This trainer against TRL's GRPOTrainer on one machine, in one run: own environment over .venv.
# usage: scripts/bench-trl.sh [options of benchmarks.trl]
set -eu
cd "$(dirname "$0")/.."
exec scripts/extra-env.sh trl -m benchmarks.trl "$@"
