#!/usr/bin/env bash
# Data-parallel training over MPI, really run: two processes on one machine, two network namespaces over TCP, a rank that is
# killed, ranks that were started differently; then what ranks cost. Every comparison is of whole files.
#
#   cargo build --release -p plaudit --features mpi
#   cargo build --release -p plaudit-cluster --features mpi --example gradient_bench
#   bench/cluster/ranks.sh target/release/plaudit target/release/examples/gradient_bench [check|bench]
#
# Needs openmpi-bin; for the namespaces root and iproute2 (that part says when it is left out). SIDE=32 STEPS=24 make it larger or smaller.
set -euo pipefail

plaudit=$(realpath "$1")
gradient_bench=$(realpath "$2")
part=${3:-all}
side=${SIDE:-32}
steps=${STEPS:-24}
place=$(mktemp -d)
trap 'rm -rf "$place"; cut_namespaces 2>/dev/null || true' EXIT
cd "$place"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_vader_single_copy_mechanism=none

say() { printf '\n== %s\n' "$*"; }
fail() { echo "FAILED: $*" >&2; exit 1; }

words=(reward train reward_training data.data_path=dataset actor.model.arch=resnet18 "actor.model.image_size=[3,$side,$side]"
  actor.micro_batch_size=8 actor.global_batch_size=32 runner.save_interval=4 runner.val_check_interval=8
  "runner.max_steps=$steps" -q)
train() { "$plaudit" "${words[@]}" "$@" >/dev/null; }
mpi_train() { local count=$1; shift; mpirun -n "$count" "$plaudit" "${words[@]}" "$@" >/dev/null; }
state() { echo "$1/checkpoints/global_step_$2/actor/trainer.safetensors"; }
same() { cmp "$(state "$1" "$steps")" "$(state "$2" "$steps")" || fail "$1 and $2 differ"; echo "$1 and $2: weights and moments are bit-exact"; }

cut_namespaces() { for n in plaudit0 plaudit1; do ip netns del $n; done; ip link del plaudit-br; }
make_namespaces() {
  ip link add plaudit-br type bridge && ip addr add 10.77.0.254/24 dev plaudit-br && ip link set plaudit-br up
  for i in 0 1; do
    ip netns add plaudit$i
    ip link add plaudit-v$i type veth peer name eth0 netns plaudit$i
    ip link set plaudit-v$i master plaudit-br && ip link set plaudit-v$i up
    ip -n plaudit$i addr add 10.77.0.$((i + 1))/24 dev eth0
    ip -n plaudit$i link set eth0 up && ip -n plaudit$i link set lo up
  done
  # mpirun reaches a machine by a command like ssh: this one enters its namespace, with a /dev/shm of its own.
  cat >enter <<'SHIM'
#!/bin/bash
host=$1; shift
exec ip netns exec "plaudit$((${host##*.} - 1))" unshare -m bash -c "mount -t tmpfs tmpfs /dev/shm && $*"
SHIM
  chmod +x enter
}

say "data"
"$plaudit" collect pickcube_scripted --episodes 12 actor.model.noise=0.05 env.eval.ignore_terminations=true \
  env.eval.total_num_envs=4 env.eval.data_collection.save_dir=episodes -q >/dev/null
"$plaudit" dataset images --raw-data-path episodes --output-dir dataset -q >/dev/null

checks() {
  say "one rank, 2 and 4 processes of MPI, 2 threads"
  train runner.logger.log_path=one
  mpi_train 2 runner.logger.log_path=mpi2
  same one mpi2
  mpi_train 4 runner.logger.log_path=mpi4 actor.sharding_strategy=shard_grad_op
  same one mpi4
  train runner.logger.log_path=threads2 --ranks 2
  same one threads2
  test -s mpi4/ranks/rank_3.log || fail "rank 3 left no log"

  say "kill -9 of rank 1, then the same run on one rank more and less"
  mpi_train 2 runner.logger.log_path=killed & job=$!
  until [ -d killed/checkpoints/global_step_4 ]; do sleep 0.05; done
  kill -9 "$(sed -n 's/.*process \([0-9]*\)$/\1/p' killed/ranks/rank_1.log | tail -1)"
  if wait $job; then fail "the job outlived its rank"; fi
  echo "the job ended with its rank; the last checkpoint is $(ls -d killed/checkpoints/global_step_* | sort -V | tail -1)"
  mpi_train 4 runner.resume_dir=killed
  same one killed

  say "ranks that were started differently"
  if mpirun -n 1 "$plaudit" "${words[@]}" runner.logger.log_path=a : -n 1 "$plaudit" "${words[@]}" runner.logger.log_path=a actor.optim.lr=0.5 \
    >/dev/null 2>said; then fail "ranks with two learning rates trained"; fi
  grep -h "another config" said | head -2

  if [ "$(id -u)" != 0 ] || ! command -v ip >/dev/null || ! make_namespaces 2>/dev/null; then
    say "two network namespaces: left out (root and iproute2 are needed)"
    return
  fi
  say "two machines (network namespaces) over TCP"
  ip netns exec plaudit0 mpirun -n 2 --host 10.77.0.1:1,10.77.0.2:1 --mca plm_rsh_agent "$place/enter" --mca btl tcp,self \
    --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 --wdir "$place" \
    "$plaudit" "${words[@]}" runner.logger.log_path=tcp2 >/dev/null
  same one tcp2
  ip netns exec plaudit0 mpirun -n 2 --host 10.77.0.1:1,10.77.0.2:1 --mca plm_rsh_agent "$place/enter" --mca btl tcp,self \
    --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 "$gradient_bench" mpi
}

step_time() { # median of time/step_secs, in ms
  grep -o '"time/step_secs",[0-9.e-]*' "$1/events.jsonl" | cut -d, -f2 | sort -g | awk '{t[NR] = $1} END {printf "%.0f ms\n", 1000 * t[int((NR + 1) / 2)]}'
}
peak() { /usr/bin/time -f "%M" "$@" 2>&1 >/dev/null | tail -1; }

bench() {
  words=(reward train reward_training data.data_path=dataset actor.model.arch=resnet18 "actor.model.image_size=[3,128,128]"
    actor.micro_batch_size=16 actor.global_batch_size=32 runner.save_interval=-1 runner.val_check_interval=-1 runner.max_steps=12 -q)
  say "a step of ResNet-18 on 32 images of 128 x 128, in micro batches of 16"
  train runner.logger.log_path=b1 && echo "1 rank x 2 threads: $(step_time b1)"
  train runner.logger.log_path=b2 --ranks 2 && echo "2 ranks x 1 thread, one process: $(step_time b2)"
  mpi_train 2 runner.logger.log_path=b3 && echo "2 ranks x 1 thread, MPI: $(step_time b3)"
  mpi_train 2 runner.logger.log_path=b4 actor.sharding_strategy=shard_grad_op && echo "2 ranks x 1 thread, MPI, sharded: $(step_time b4)"

  say "sums in a fixed order, and MPI's own"
  "$gradient_bench" threads 2
  mpirun -n 2 "$gradient_bench" mpi

  say "peak memory of a rank (MiB), ResNet-50 at 32 x 32: weights 90, moments 180"
  words=(reward train reward_training data.data_path=dataset actor.model.arch=resnet50 "actor.model.image_size=[3,32,32]"
    actor.micro_batch_size=2 actor.global_batch_size=8 runner.save_interval=-1 runner.val_check_interval=-1 runner.max_steps=4 -q)
  for sharding in no_shard shard_grad_op; do
    cat >measured <<MEASURED
#!/bin/bash
exec /usr/bin/time -o "$place/peak.$sharding.\$OMPI_COMM_WORLD_RANK" -f %M "$plaudit" "\$@"
MEASURED
    chmod +x measured
    mpirun -n 4 ./measured "${words[@]}" runner.logger.log_path=memory_$sharding actor.sharding_strategy=$sharding >/dev/null
    echo "4 ranks, $sharding: $(cat peak.$sharding.[1-3] | awk '{s += $1} END {printf "%.0f", s / NR / 1024}') (mean of ranks 1 to 3)"
  done
}

case $part in
  check) checks ;;
  bench) bench ;;
  *) checks; bench ;;
esac
say "done"
