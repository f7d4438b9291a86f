#!/bin/sh
# Files of other libraries (Parquet, Inspect logs, PNG), checked by these libraries: own environment (.venvs/exchange).
# usage: scripts/test-exchange.sh [pytest options]
set -eu
cd "$(dirname "$0")/.."
venv=.venvs/exchange
python=${PYTHON:-$(command -v python3.11 || command -v python3)}
if [ ! -f "$venv/.ready" ] || [ requirements/exchange.txt -nt "$venv/.ready" ] || [ pyproject.toml -nt "$venv/.ready" ]; then
  "$python" -m venv "$venv"
  "$venv/bin/python" -m pip install -q --disable-pip-version-check -e . -r requirements/exchange.txt
  touch "$venv/.ready"
fi
exec "$venv/bin/python" -m pytest -m exchange tests/foreign "$@"
