#!/bin/sh
# An environment in .venvs/NAME with what requirements/NAME.txt lists, on top of what .venv has; runs tests/real_NAME in it.
# Packages whose own requirements are not wanted stand in requirements/NAME-alone.txt, where there is one.
# usage: scripts/extra-env.sh NAME [pytest options]; where there is no tests/real_NAME: NAME [python arguments]
set -eu
cd "$(dirname "$0")/.."
name=$1
shift
venv=.venvs/$name
if [ ! -x .venv/bin/python ]; then
  echo "there is no .venv; run make setup first" >&2
  exit 2
fi
alone=requirements/$name-alone.txt
if [ ! -f "$venv/.ready" ] || [ "requirements/$name.txt" -nt "$venv/.ready" ] || [ "$alone" -nt "$venv/.ready" ]; then
  .venv/bin/python -m venv --clear "$venv"
  packages() { "$1" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }
  # .pth files of that folder count too: the package itself is installed there in editable form.
  echo "import site; site.addsitedir('$(packages .venv/bin/python)')" > "$(packages "$venv/bin/python")/over_main.pth"
  "$venv/bin/python" -m pip install -q --disable-pip-version-check --no-compile -r "requirements/$name.txt"
  if [ -f "$alone" ]; then
    "$venv/bin/python" -m pip install -q --disable-pip-version-check --no-compile --no-deps -r "$alone"
  fi
  touch "$venv/.ready"
fi
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
[ -d "tests/real_$name" ] || exec "$venv/bin/python" "$@"
exec "$venv/bin/python" -m pytest -rs -m "$name" "tests/real_$name" "$@"
