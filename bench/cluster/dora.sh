#!/usr/bin/env bash
# Prints the folder of dora's command line, of the version that plaudit is built with: the one on PATH, or one that is installed into the
# target folder. Exits with 77 where there is neither it nor a Python to install it.
set -euo pipefail

version=1.1.0
has_version() { "$1" --version 2>/dev/null | grep -q "$version"; }

if command -v dora >/dev/null && has_version dora; then
  dirname "$(command -v dora)"
  exit
fi
folder=$(cd "$(dirname "$0")/../.." && pwd)/target/dora-$version
if ! has_version "$folder/bin/dora"; then
  command -v python3 >/dev/null || { echo "no dora $version, and no python3 to install it" >&2; exit 77; }
  { python3 -m venv "$folder" && "$folder/bin/pip" install -q "dora-rs-cli==$version"; } >&2 ||
    { echo "dora $version could not be installed" >&2; exit 77; }
fi
echo "$folder/bin"
