#!/bin/sh
# An environment in .venvs/NAME with what requirements/NAME.txt lists, on top of what .venv has; runs tests/real_NAME in it.
# usage: scripts/extra-env.sh NAME [pytest options]
set -eu
cd "$(dirname "$0")/.."
name=$1
shift
venv=.venvs/$name
if [ ! -x .venv/bin/python ]; then
  echo "there is no .venv; run make setup first" >&2
  exit 2
fi
if [ ! -f "$venv/.ready" ] || [ "requirements/$name.txt" -nt "$venv/.ready" ]; then
  .venv/bin/python -m venv --clear "$venv"
  packages() { "$1" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }
  # .pth files of that folder count too: the package itself is installed there in editable form.
  echo "import site; site.addsitedir('$(packages .venv/bin/python)')" > "$(packages "$venv/bin/python")/over_main.pth"
  "$venv/bin/python" -m pip install -q --disable-pip-version-check --no-compile -r "requirements/$name.txt"
  touch "$venv/.ready"
fi
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
exec "$venv/bin/python" -m pytest -rs -m "$name" "tests/real_$name" "$@"
