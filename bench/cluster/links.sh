#!/usr/bin/env bash
# Batches of 64 frames of 128 x 128 x 3 to a reward worker and their scores back, over each kind of link: threads of one process, two
# processes, two machines (network namespaces; as root), two machines with a slow link; and Ray actors doing the same.
#
#   cargo build --release -p plaudit-cluster --features dora --example link_bench
#   bench/cluster/links.sh target/release/examples/link_bench [PYTHON]      # PYTHON has ray and numpy
#
# SECONDS_EACH=5 and ROUNDS=3 can be set. Rounds go through all of them in turn, so that a busy machine is busy for all.
set -euo pipefail

bench=$(realpath "$1")
python=${2:-}
seconds=${SECONDS_EACH:-5}
here=$(cd "$(dirname "$0")" && pwd)
dora=$("$here/dora.sh")
export PLAUDIT_NETNS=pllinks PLAUDIT_NETNS_PATH=$dora:$PATH
export PATH=$dora:$PATH
net=$here/namespaces.sh
work=$(mktemp -d)
trap '"$net" down; rm -rf "$work"' EXIT
cd "$work"
"$net" down

cat >overlay.json5 <<'OVERLAY'
{transport: {link: {tx: {queue: {congestion_control: {drop: {wait_before_drop: 2000000, max_wait_before_drop_fragments: 10000000}}}}}}}
OVERLAY
export DORA_ZENOH_CONFIG_OVERLAY=$work/overlay.json5
export MALLOC_MMAP_THRESHOLD_=33554432 MALLOC_TRIM_THRESHOLD_=1073741824 # as plaudit gives them to every process of a plan

graph() { # machine of the client, of the reward worker; nothing: no machines
  node() {
    printf '  - id: %s\n    path: %s\n    args: %s\n    shared_memory_pool_size: 64MB\n' "$1" "$bench" "$2"
    [ -z "$4" ] || printf '    deploy: {machine: %s, working_dir: %s}\n' "$4" "$work"
    printf '    inputs:\n      %s: {source: %s/%s, queue_size: 96}\n    outputs: [%s]\n' "$3" "$3" "$1" "$3"
  }
  printf 'nodes:\n'
  node client "client $seconds" reward "${1:-}"
  node reward reward client "${2:-}"
}

results() { grep -oE 'RESULT (threads|dora|Ray) (one|four) at a time.*' | sed -E "s#RESULT (threads|dora|Ray)#$1:#"; }

two_machines() { # name, what to do to the link
  "$net" up 2 >/dev/null
  # shellcheck disable=SC2086
  [ -z "$2" ] || { "$net" shape 0 $2 && "$net" shape 1 $2; }
  graph n0 n1 >graph.yml
  local coordinator=(--coordinator-addr 10.77.0.1)
  "$net" exec 0 dora coordinator --quiet --interface 10.77.0.1 >coordinator.log 2>&1 &
  sleep 1
  for rank in 0 1; do
    local other=10.77.0.$((2 - rank))
    "$net" exec $rank dora daemon --quiet --zenoh-no-multicast --machine-id n$rank "${coordinator[@]}" --zenoh-listen "10.77.0.$((rank + 1)):5456" \
      --zenoh-connect "tcp/$other:5456" --zenoh-config-overlay "$work/overlay.json5" >daemon$rank.log 2>&1 &
  done
  sleep 2
  "$net" exec 0 timeout 180 dora start --attach graph.yml "${coordinator[@]}" 2>&1 | results "$1" || { tail -n 3 ./*.log; true; }
  "$net" down
}

for round in $(seq "${ROUNDS:-3}"); do
  echo "round $round"
  "$bench" threads "$seconds" | results "threads of one process"
  graph >graph.yml
  timeout 120 dora run graph.yml 2>&1 | results "two processes"
  if [ "$(id -u)" = 0 ]; then
    two_machines "two machines" ""
    two_machines "two machines, 1 Gbit/s" rate=1gbit
  fi
  [ -z "$python" ] || "$python" "$here/ray_actors.py" "$seconds" | results "Ray actors"
done
