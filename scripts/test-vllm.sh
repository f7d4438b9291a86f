#!/bin/sh
# Rollouts by a real vLLM engine on a CPU: own environment over .venv, no network once it is made.
# usage: scripts/test-vllm.sh [pytest options]
# VLLM_CPU_KVCACHE_SPACE   GiB of each engine's key-value cache (default 1)
set -eu
cd "$(dirname "$0")/.."
export VLLM_CPU_KVCACHE_SPACE="${VLLM_CPU_KVCACHE_SPACE:-1}"
exec scripts/extra-env.sh vllm "$@"
