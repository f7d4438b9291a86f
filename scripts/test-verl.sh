#!/bin/sh
# Tests against verl on a CPU: our formulas against its functions, then training through its workers and servers.
# Own environment (.venvs/verl, 1.6 GB), no GPU, no network once it is made.
# usage: scripts/test-verl.sh [pytest options]
# TORCH_INDEX   index that serves CPU builds of torch, where the default one does not
set -eu
cd "$(dirname "$0")/.."
venv=.venvs/verl
python=${PYTHON:-$(command -v python3.11 || command -v python3)}
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
if [ ! -f "$venv/.ready" ] || [ requirements/verl.txt -nt "$venv/.ready" ] || [ pyproject.toml -nt "$venv/.ready" ]; then
  "$python" -m venv "$venv"
  "$venv/bin/python" -m pip install -q --disable-pip-version-check --no-compile \
    ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} -e . -r requirements/verl.txt
  touch "$venv/.ready"
fi
"$venv/bin/python" -m pytest -m verl tests/verl "$@"
# In a process of its own: here verl is imported with the CPU platform of the test kit, there without it.
exec "$venv/bin/python" -m pytest -m verl tests/verl_train "$@"
