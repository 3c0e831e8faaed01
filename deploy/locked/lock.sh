#!/usr/bin/env bash
# Writes node.txt, services.txt and build.txt: what an agent installs, what a collector does, and what builds the wheel,
# in the versions of constraints.txt, with the hashes of all files of each version, whatever the Python and the machine.
set -euo pipefail

uv=$1
lock() {
    "$uv" pip compile "$1" "${@:3}" --constraint constraints.txt --generate-hashes --universal --python-version 3.11 \
        --no-header --no-annotate --no-emit-index-url --quiet --output-file "$2.new"
    mv "$2.new" "$2"
}
lock pyproject.toml deploy/locked/node.txt --extra gpu
lock pyproject.toml deploy/locked/services.txt --extra collector --extra discovery --extra gpu --extra postgres
printf 'hatchling\n' >deploy/locked/build.in
lock deploy/locked/build.in deploy/locked/build.txt
rm deploy/locked/build.in
