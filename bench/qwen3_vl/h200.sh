#!/bin/sh
# Builds plaudit for NVIDIA GPUs, checks what it computes there, and times it against transformers; see h200.py.
# PROGRAM names a program that is built already. The CUDA libraries are looked for in LD_LIBRARY_PATH too.
set -e
root=$(cd "$(dirname "$0")/../.." && pwd)
if [ -z "$PROGRAM" ]; then
    (cd "$root" && cargo build --release -p plaudit-nn --example qwen3_vl_cuda)
    PROGRAM=$root/target/release/examples/qwen3_vl_cuda
fi
exec "${PYTHON:-python3}" "$root/bench/qwen3_vl/h200.py" --program "$PROGRAM" "$@"
