#!/usr/bin/env bash
# Makes the environment that `make` works in, and says how far it is.
# Takes PYTHON, TORCH (what to tell pip, options included) and VENV from the environment.
set -euo pipefail

started=$SECONDS
say() { printf '[%3ds] %s\n' "$((SECONDS - started))" "$*"; }
pip_install() { "$VENV/bin/python" -m pip install --quiet --quiet "$@"; }
has_torch() { "$1" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)'; }

if ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "unhang needs Python 3.11 or newer; '$PYTHON' is not. Say which: make PYTHON=/path/to/python3.11" >&2
    exit 1
fi

say "making $VENV with $("$PYTHON" --version)"
if [ ! -x "$VENV/bin/python" ]; then
    # Whoever has a PyTorch wants that one: on a GPU machine it is the one that fits the driver.
    if has_torch "$PYTHON"; then options=--system-site-packages; else options=; fi
    "$PYTHON" -m venv $options "$VENV"
fi

if has_torch "$VENV/bin/python"; then
    say "PyTorch is here already"
else
    say "installing PyTorch ($TORCH), the largest part"
    # shellcheck disable=SC2086 # TORCH may carry options such as an index
    pip_install $TORCH
fi

say "installing unhang, what it needs, and the tools of its tests"
pip_install --constraint constraints.txt --editable '.[dev,collector,gpu,postgres]'
say "installed"
