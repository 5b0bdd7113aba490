#!/usr/bin/env bash
# Training on three machines that are made of network namespaces, by the real dora, while things go wrong. After each fault learning must
# go on within 15 s, or stop with a reason and go on when the reason is gone; in the end no segment may be lost or counted twice, the
# weights must be bit for bit those of an undisturbed run in one process, and nothing may be left behind. Needs root; gets dora by itself.
#
#   cargo build --release --features cluster
#   bench/cluster/faults.sh target/release/plaudit            # all: KILLS=50 SEED=1 can be set; half an hour on two cores
#   bench/cluster/faults.sh target/release/plaudit short      # one kill, one link down
#
# Exits with 77, and says why, where machines cannot be made of namespaces or dora cannot be had.
set -euo pipefail

plaudit=$(realpath "$1")
form=${2:-all}
here=$(cd "$(dirname "$0")" && pwd)
kills=${KILLS:-50}
RANDOM=${SEED:-1}
patience=${PATIENCE:-15} # seconds until learning must go on

left_out() { echo "faults of a cluster: left out ($*)"; exit 77; }
[ "$(id -u)" = 0 ] && command -v ip >/dev/null && command -v nsenter >/dev/null || left_out "root, iproute2 and util-linux are needed"
command -v jq >/dev/null || left_out "jq is needed"
unshare --net --mount true 2>/dev/null || left_out "namespaces are not allowed here"
dora=$("$here/dora.sh") || left_out "there is no dora 1.1.0"

export PLAUDIT_NETNS=plfault PLAUDIT_NETNS_PATH=$dora:$PATH
net=$here/namespaces.sh
work=$(mktemp -d)
disk=/mnt/plaudit # each machine's own
run=$disk/run
driver=
finish() {
  [ -z "$driver" ] || kill "$driver" 2>/dev/null || true
  "$net" down
  rm -rf "$work"
}
trap finish EXIT
"$net" down
shims=$("$net" up 3)
export PATH=$shims:$dora:$PATH

say() { printf '\n== %s\n' "$*"; }
fail() {
  echo "FAILED: $*" >&2
  tail -n 5 "$work/run$runs.log" >&2 || true
  exit 1
}
on() { local machine=$1; shift; "$net" exec "$machine" "$@"; }
now() { date +%s.%N; }
since() { awk -v began="$1" -v now="$(now)" 'BEGIN {printf "%.1f", now - began}'; }

# The number of the last segment that the learner took in: how far learning has come.
segment() { on 0 tail -n 20 "$run/ledger.jsonl" 2>/dev/null | jq -rs 'map(.segment // empty) | last // 0' 2>/dev/null || echo 0; }

# Waits until two more steps were learned than at a fault: what was under way then may have passed it.
learns_on() { # segment at the fault, when it was, what it was
  local before=${1:-0} began=$2 what=$3 took
  until [ "$(segment)" -ge $((before + 2)) ] 2>/dev/null; do
    kill -0 "$driver" 2>/dev/null || fail "$what: the run ended"
    took=$(since "$began")
    [ "${took%.*}" -lt 90 ] || fail "$what: learning did not go on within 90 s"
    sleep 0.1
  done
  took=$(since "$began")
  printf '%-44s learning goes on after %5s s\n' "$what" "$took"
  echo "$took" >>"$work/times"
  [ "${took%.*}" -lt "$patience" ] || late=$((${late:-0} + 1))
}

start() { # words after `cluster run`
  runs=$((${runs:-0} + 1))
  "$net" exec 0 "$plaudit" cluster run "$@" >"$work/run$runs.log" 2>&1 &
  driver=$!
}
stop() {
  kill -TERM "$driver"
  wait "$driver" || true
  driver=
}
ends() { # waits for the driver; its exit status
  local status=0
  wait "$driver" || status=$?
  driver=
  return $status
}

pid_of() { # machine, pattern of a command line
  local pid
  for pid in $("$net" pids "$1"); do
    if tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -Eq "$2"; then echo "$pid"; return; fi
  done
}
kill_one() { # machine, pattern, name
  local pid before
  pid=$(pid_of "$1" "$2")
  for _ in $(seq 100); do [ -n "$pid" ] && break; sleep 0.1; pid=$(pid_of "$1" "$2"); done
  [ -n "$pid" ] || fail "there is no $3 to kill"
  before=$(segment)
  kill -9 "$pid"
  learns_on "$before" "$(now)" "kill -9 of $3"
}
kill_any() {
  case $((RANDOM % 8)) in
    0 | 1) kill_one 2 'component reward' "the reward worker" ;;
    2) kill_one 1 'component env --rank 0' "env worker 0" ;;
    3) kill_one 1 'component env --rank 1' "env worker 1" ;;
    4) kill_one 0 'component actor' "the learner" ;;
    5) kill_one 1 'dora.* daemon' "the daemon of the environments" ;;
    6) kill_one 2 'dora.* daemon' "the daemon of the reward model" ;;
    7) kill_one 0 'dora.* coordinator' "the coordinator" ;;
  esac
}

say "data and a model"
cd "$work"
"$plaudit" collect pickcube_scripted --episodes 12 actor.model.noise=0.05 env.eval.ignore_terminations=true env.eval.total_num_envs=4 \
  env.eval.init_params.sensor_configs='{width: 32, height: 32, hand_camera: {}}' env.eval.data_collection.save_dir=episodes -q >/dev/null
"$plaudit" reward train reward_training data.data_path=episodes data.num_samples_per_episode=0 actor.model.arch=resnet18 \
  actor.model.image_keys='[main_images,extra_view_images]' actor.model.image_size='[3,32,32]' runner.max_steps=20 \
  runner.logger.log_path=model -q >/dev/null
model=$(find "$work/model" -type d -name best_model | head -1)
[ -n "$model" ] || fail "no model was trained"
for machine in 0 1 2; do on "$machine" cp -r "$model" $disk/model; done
words=("$here/faults.yaml" reward.model.model_path=$disk/model "runner.logger.log_path=$run" -q)

say "training on three machines"
start "${words[@]}"
learns_on 0 "$(now)" "first steps"
: >"$work/times"
late=0

cut_link() {
  local before
  before=$(segment)
  "$net" cut 2
  sleep 5
  "$net" join 2
  learns_on "$before" "$(now)" "link of the reward model down for 5 s, up again"
}

if [ "$form" = short ]; then
  kill_one 2 'component reward' "the reward worker"
  cut_link
else
  say "kill -9, $kills times at random"
  for number in $(seq "$kills"); do
    sleep $((RANDOM % 3)).$((RANDOM % 10))
    printf '%3d ' "$number"
    kill_any
  done
  say "links"
  cut_link
  for what in "rate=200mbit" "loss=2 delay=50ms"; do
    before=$(segment)
    # shellcheck disable=SC2086
    if ! ("$net" shape 2 $what); then echo "$what: left out (this machine cannot)"; continue; fi
    learns_on "$before" "$(now)" "$what"
    sleep 10
    learns_on "$(segment)" "$(now)" "$what, still"
    "$net" shape 2
  done
  say "a full disk where the environments are"
  before=$(segment)
  "$net" fill 1
  learns_on "$before" "$(now)" "no room on that machine's disk"
  "$net" empty 1

  say "a full disk where the learner is"
  "$net" fill 0
  if ends; then fail "a learner without a disk said that all was well"; fi
  grep -iE 'no space|cannot write' "$work/run$runs.log" | head -2
  "$net" empty 0

  say "clocks an hour apart, and the same run again"
  if ("$net" clock 2 +1h); then
    echo "machine 0: $(ssh 10.77.0.1 date +%T), machine 2: $(ssh 10.77.0.3 date +%T)"
    before=$(segment)
    start "$run" -q
    learns_on "$before" "$(now)" "from the checkpoint, clocks apart"
    kill_one 2 'component reward' "the reward worker, clocks apart"
    kill_one 2 'dora.* daemon' "a daemon, clocks apart"
  else
    echo "left out (libfaketime is needed)"
    start "$run" -q
    learns_on "$(segment)" "$(now)" "from the checkpoint"
  fi
fi

say "stopping"
stop
for machine in 0 1 2; do
  left=$("$net" pids "$machine")
  # shellcheck disable=SC2086
  [ -z "$left" ] || fail "machine $machine still runs $(ps -o args= -p $left | head -3)"
  memory=$(on "$machine" ls /dev/shm | grep -v faketime || true) # the changed clock's own
  [ -z "$memory" ] || fail "machine $machine still has shared memory: $memory"
done
echo "no process and no shared memory is left"
segments=$(on 0 "$plaudit" cluster status "$run" --json | jq -r '.segments | "\(.taken_in) segments, the learner started \(.starts) times, \(.problem // "none lost or counted twice")"')
echo "$segments"
[[ $segments == *"none lost"* ]] || fail "segments were lost or counted twice"

say "the same in one process, undisturbed"
last=$(on 0 sh -c "ls -d $run/checkpoints/global_step_* | sort -V | tail -1")
step=${last##*_}
"$plaudit" train --local "$here/faults.yaml" "reward.model.model_path=$model" "runner.logger.log_path=$work/alone" "runner.max_epochs=$step" \
  "runner.save_interval=$step" -q >/dev/null
on 0 cp -r "$last" "$work/cluster"
compared=0
while read -r file; do
  cmp "$work/cluster/$file" "$work/alone/checkpoints/global_step_$step/$file" || fail "$file differs"
  compared=$((compared + 1))
done < <(cd "$work/cluster" && find . -name '*.safetensors')
[ "$compared" -gt 0 ] || fail "there was nothing to compare"
echo "step $step: $compared files of weights and moments are bit for bit the same"

sort -g "$work/times" | awk '{t[NR] = $1} END {printf "\n%d faults; learning goes on after %s s (median), %s s (worst)\n", NR, t[int((NR + 1) / 2)], t[NR]}'
[ "$late" = 0 ] || fail "$late times it took longer than $patience s"
