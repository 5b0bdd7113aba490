#!/usr/bin/env bash
# Fills the corpora with small seeds and the fixtures of the tests.
set -euo pipefail
cd "$(dirname "$0")"
fixtures=../tests/python/fixtures
mkdir -p corpus/{pickle,npy,npz,pt,legacy}
copy() { # target, files…
  local target=$1; shift
  for file in "$@"; do
    [ "$(stat -c %s "$file")" -lt 40000 ] && cp "$file" "corpus/$target/$(basename "$file")"
  done
  return 0
}
copy pickle $fixtures/*.pkl $fixtures/*/*.pkl* ../tests/python/refused/*.pkl
copy npy $fixtures/*.npy ../tests/python/refused/*.npy
copy npz $fixtures/*.npz $fixtures/*.npy
copy legacy $fixtures/*legacy*.pt
copy pt $(ls $fixtures/*.pt | grep -v legacy) ../tests/python/refused/*.pt
# The pickles of torch's archives on their own.
python3 - <<'EOF'
import glob, zipfile
for path in glob.glob("corpus/pt/*.pt"):
    with zipfile.ZipFile(path) as archive:
        name = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
        open(path + ".data.pkl", "wb").write(archive.read(name))
EOF
cp -r seeds/* corpus/
