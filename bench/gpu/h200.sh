#!/usr/bin/env bash
# Image classifiers on an NVIDIA GPU beside PyTorch: scoring and training are checked before anything is timed, and all options go to
# both scripts but --output, which names a folder. Builds the programs here; PROGRAMS names a folder of programs that are built already,
# for a machine without Rust.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
if [ -z "${PROGRAMS:-}" ]; then
    (cd "$root" && cargo build --release -p plaudit-nn --example classifier_gpu --example classifier_training_gpu)
    PROGRAMS=$root/target/release/examples
fi
options=()
output=
while [ $# -gt 0 ]; do
    case $1 in
    --output) output=$2 && shift && mkdir -p "$output" ;;
    *) options+=("$1") ;;
    esac
    shift
done
scoring() { python3 "$here/scoring.py" --program "$PROGRAMS/classifier_gpu" "$@"; }
training() { python3 "$here/training.py" --program "$PROGRAMS/classifier_training_gpu" "$@"; }
scoring --only-check
training --only-check
scoring --skip-checks "${options[@]}" ${output:+--output "$output/scoring.json"}
training --skip-checks "${options[@]}" ${output:+--output "$output/training.json"}
