#!/usr/bin/env bash
# Prints constraints.txt from what is installed, without PyTorch and what it alone brings.
set -euo pipefail

cat <<'HEADER'
# The versions that `make check` last passed with, on Python 3.11. `make constraints` writes this file anew.
# PyTorch and what it alone brings are absent: which build fits is for each machine to say (see README.md).
HEADER
"$1" freeze --exclude-editable |
    grep --invert-match --ignore-case --extended-regexp \
        '^(torch|filelock|fsspec|mpmath|networkx|sympy|triton|cuda-.*|nvidia-[cn].*|numpy)=='
