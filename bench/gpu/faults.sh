#!/bin/sh
# What happens when a GPU, its memory, its driver or a library is missing, or goes away in the middle of a training: a clear error, the
# last checkpoint whole, and a run that goes on from it to the same bits. Needs a C compiler, python3 with torch for one of the checks,
# and episodes (made here unless EPISODES names some). Without a GPU it checks what can be checked without one.
#
#     PROGRAM=target/release/plaudit bench/gpu/faults.sh
set -u
here=$(cd "$(dirname "$0")" && pwd)
program=${PROGRAM:-plaudit}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
if [ -n "${FAULTS_LIBRARY:-}" ]; then cp "$FAULTS_LIBRARY" "$work/faults.so"; else
    cc -O1 -shared -fPIC -o "$work/faults.so" "$here/faults.c" -ldl || exit 1
fi
episodes=${EPISODES:-$work/episodes}
[ -d "$episodes" ] || "$program" collect pickcube_scripted --episodes 12 actor.model.noise=0.05 env.eval.ignore_terminations=true \
    env.eval.data_collection.save_dir="$episodes" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }

# train NAME WORD...: a short training on the GPU, into $work/NAME; the log is $work/NAME.log.
train() {
    name=$1
    shift
    "$program" reward train reward_training data.data_path="$episodes" runner.logger.log_path="$work/$name" runner.max_steps=40 \
        runner.val_check_interval=10 runner.save_interval=10 runner.early_stop.enabled=false runner.second_model=false \
        actor.model.precision=bf16 --device cuda "$@" > "$work/$name.log" 2>&1
}

# verdict WHAT CONDITION...: says whether it holds.
verdict() {
    what=$1
    shift
    if "$@"; then echo "ok: $what"; else
        echo "WRONG: $what"
        failed=1
    fi
}

# refused NAME CODE TEXT: the training ended with an error, which says this, and no panic.
refused() {
    echo "  $(tr -s ' \n│·×' ' ' < "$work/$1.log" | grep -o "$3.*" | cut -c1-200 | head -1)"
    [ "$2" -ne 0 ] && tr -s ' \n│·×' ' ' < "$work/$1.log" | grep -q "$3" && ! grep -qi panicked "$work/$1.log"
}

weights() { sha256sum < "$work/$1/checkpoints/global_step_40/actor/model_state_dict/full_weights.pt"; }

# goes_on NAME: it goes on from its last checkpoint to the same bits as a training that nothing happened to.
goes_on() {
    train "$1" runner.resume_dir="$work/$1" && [ "$(weights "$1")" = "$(weights whole)" ]
}

CUDA_VISIBLE_DEVICES= train hidden; verdict "no GPU" refused hidden $? "no .* found"
if ! "$program" device --no-test 2> /dev/null | grep -q "compute capability"; then
    echo "skipped: the rest needs a GPU"
    exit $failed
fi
FAULT_MISSING=cuGraphInstantiateWithFlags LD_PRELOAD="$work/faults.so" train driver
verdict "a driver that is too old" refused driver $? "driver is too old: it lacks cuGraphInstantiateWithFlags"
FAULT_LIBRARY=libnvrtc LD_PRELOAD="$work/faults.so" train library
verdict "a library that is missing" refused library $? "the library libnvrtc was not found"
FAULT_LIBRARY=libcuda LD_PRELOAD="$work/faults.so" train no_driver
verdict "no driver" refused no_driver $? "no NVIDIA driver"
FAULT_FREE=200 LD_PRELOAD="$work/faults.so" train memory
verdict "too little memory, before the first step" refused memory $? "too little memory: [0-9]* MiB more are needed and 200 MiB of"
verdict "  and nothing was trained" test ! -d "$work/memory/checkpoints/global_step_10"

# A card that another process has filled.
if python3 -c "import torch; torch.zeros(1).cuda()" 2> /dev/null; then
    python3 -c "
import sys, time, torch
free, _ = torch.cuda.mem_get_info()
held = torch.empty(free - (160 << 20), dtype=torch.uint8, device='cuda')
print('full', flush=True)
time.sleep(60)" > "$work/full" &
    other=$!
    until grep -q full "$work/full"; do sleep 0.2; done
    train filled
    verdict "a card that another process has filled" refused filled $? "memory"
    kill $other
    wait $other 2> /dev/null
fi

train whole; verdict "a training that nothing happens to" test $? = 0
# Two at once, each as if it were alone.
train first & one=$!
train second & two=$!
wait $one; first=$?
wait $two; second=$?
verdict "two processes on one card" test "$first$second" = 00
verdict "  with the same bits" test "$(weights first)$(weights second)" = "$(weights whole)$(weights whole)"

# The GPU falls off: first in the forward and backward pass or a step, then while the host waits for it.
for fault in "cuGraphLaunch 55 214" "cuGraphLaunch 56 719" "cuEventSynchronize 250 700"; do
    set -- $fault
    name=lost_$1_$2
    FAULT_FUNCTION=$1 FAULT_AFTER=$2 FAULT_CODE=$3 LD_PRELOAD="$work/faults.so" train "$name"
    verdict "a GPU that falls off ($1, code $3)" refused "$name" $? "the GPU was lost while"
    verdict "  the last checkpoint is whole, and the run goes on to the same bits" goes_on "$name"
done
FAULT_FUNCTION=cuGraphLaunch FAULT_AFTER=3 FAULT_CODE=214 LD_PRELOAD="$work/faults.so" train early
verdict "a GPU that falls off before the first checkpoint" refused early $? "the GPU was lost while"

# Killed.
train killed runner.max_steps=4000 & victim=$!
until [ -d "$work/killed/checkpoints/global_step_20" ]; do sleep 0.02; done
pkill -9 -P $victim
wait $victim 2> /dev/null
verdict "a process that is killed leaves a checkpoint" test -d "$work/killed/checkpoints/global_step_10"
# It may have come further than 60 steps before it was killed.
train killed runner.resume_dir="$work/killed" runner.max_steps=1000
verdict "  and goes on from it" test $? = 0
exit $failed
