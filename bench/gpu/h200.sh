#!/usr/bin/env bash
# Image classifiers on an NVIDIA GPU beside PyTorch, checked before they are timed: bench/gpu/h200.py. Builds the program here;
# PROGRAM names one that is built already, for a machine without Rust.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
if [ -z "${PROGRAM:-}" ]; then
    (cd "$root" && cargo build --release -p plaudit-nn --example classifier_gpu)
    PROGRAM=$root/target/release/examples/classifier_gpu
fi
exec python3 "$root/bench/gpu/h200.py" --program "$PROGRAM" "$@"
