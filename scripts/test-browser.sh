#!/bin/sh
# Browser tests of the report and the inspector: own environment, the system's Chromium, no network.
# usage: scripts/test-browser.sh [pytest options]
# TURNPOINT_CHROMIUM   path of Chromium, where it is not found by itself
# TURNPOINT_SCREENSHOTS  folder that keeps the screenshots the tests take
set -eu
cd "$(dirname "$0")/.."
venv=.venvs/browser
python=${PYTHON:-$(command -v python3.11 || command -v python3)}
chromium=${TURNPOINT_CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
if [ ! -x "$chromium" ]; then
  echo "Chromium was not found; install it (Debian: apt-get install chromium) or set TURNPOINT_CHROMIUM" >&2
  exit 2
fi
if [ ! -f "$venv/.ready" ] || [ requirements/browser.txt -nt "$venv/.ready" ] || [ pyproject.toml -nt "$venv/.ready" ]; then
  "$python" -m venv "$venv"
  "$venv/bin/python" -m pip install -q --disable-pip-version-check -e . -r requirements/browser.txt
  touch "$venv/.ready"
fi
TURNPOINT_CHROMIUM=$chromium exec "$venv/bin/python" -m pytest -m browser tests/browser "$@"
