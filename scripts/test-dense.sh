#!/bin/sh
# Tests of the dense retriever with a real sentence-transformers model: own environment over .venv, no network once it is made.
# usage: scripts/test-dense.sh [pytest options]
set -eu
cd "$(dirname "$0")/.."
exec scripts/extra-env.sh dense "$@"
