#!/usr/bin/env bash
# The same training in one process, in three processes of one machine, and on two machines (network namespaces; as root): how long a step
# takes and what of it, with a reward model that sees every frame. The weights must be bit for bit the same.
#
#   cargo build --release --features cluster
#   bench/cluster/training.sh target/release/plaudit
#
# STEPS=12, ROUNDS=3 and SIDE=64 (pixels) can be set.
set -euo pipefail

plaudit=$(realpath "$1")
steps=${STEPS:-12}
side=${SIDE:-64}
here=$(cd "$(dirname "$0")" && pwd)
dora=$("$here/dora.sh")
export PLAUDIT_NETNS=pltrain PLAUDIT_NETNS_PATH=$dora:$PATH
export PATH=$dora:$PATH
net=$here/namespaces.sh
work=$(mktemp -d)
trap '"$net" down; rm -rf "$work"' EXIT
"$net" down
cd "$work"

sensors="{width: $side, height: $side, hand_camera: {}}"
"$plaudit" collect pickcube_scripted --episodes 12 actor.model.noise=0.05 env.eval.ignore_terminations=true env.eval.total_num_envs=4 \
  "env.eval.init_params.sensor_configs=$sensors" env.eval.data_collection.save_dir=episodes -q >/dev/null
"$plaudit" reward train reward_training data.data_path=episodes data.num_samples_per_episode=0 actor.model.arch=resnet18 \
  actor.model.image_keys='[main_images,extra_view_images]' "actor.model.image_size=[3,$side,$side]" runner.max_steps=10 \
  runner.logger.log_path=model -q >/dev/null
words=("$here/faults.yaml" reward.model.model_path="$work/model/checkpoints/best_model" "runner.max_epochs=$steps" "runner.save_interval=$steps"
  env.train.total_num_envs=32 "env.train.init_params.sensor_configs=$sensors" "reward.model.image_size=[3,$side,$side]" -q)
here_alone='cluster={num_nodes: 1, nodes: [{host: 127.0.0.1}], component_placement: {actor: 0, env: 0, reward: 0}}'
two='cluster={num_nodes: 2, nodes: [{host: 10.77.0.1}, {host: 10.77.0.2}], component_placement: {actor: {node_group: node, placement: 0}, env: {node_group: node, placement: 1}, reward: {node_group: node, placement: 0}}}'

# Medians over the steps but the first, in ms: the whole step, playing, scoring, learning.
report() { # name, run directory
  jq -rs --arg name "$1" '
    def median: sort | .[(length / 2) | floor];
    [.[] | select(.event == "metrics") | .values | map({(.[0]): .[1]}) | add | select(.["time/step"])][1:] as $steps
    | ["time/step", "time/generate_rollouts", "time/reward/compute_rewards", "time/actor_training"]
    | map(. as $key | [$steps[] | .[$key] // 0] | median * 1000 | round)
    | "\($name): \(.[0]) ms a step, of it playing \(.[1]), scoring \(.[2]), learning \(.[3])"' "$2/events.jsonl"
}
same() { # run directories
  local file
  for file in model learner rollout; do
    cmp "$1/checkpoints/global_step_$steps/actor/$file.safetensors" "$2/checkpoints/global_step_$steps/actor/$file.safetensors" ||
      { echo "FAILED: $1 and $2 differ in $file"; exit 1; }
  done
}

for round in $(seq "${ROUNDS:-3}"); do
  "$plaudit" train --local "${words[@]}" "runner.logger.log_path=one$round" >/dev/null
  report "one process" "one$round"
  "$plaudit" cluster run "${words[@]}" "$here_alone" "runner.logger.log_path=three$round" >/dev/null
  report "three processes" "three$round"
  same "one$round" "three$round"
  [ "$(id -u)" = 0 ] || continue
  shims=$("$net" up 2)
  PATH=$shims:$PATH "$net" exec 0 "$plaudit" cluster run "${words[@]}" "$two" "runner.logger.log_path=$work/two$round" >/dev/null
  "$net" down
  report "two machines" "two$round"
  same "one$round" "two$round"
done
echo "weights, moments and rollouts of all are bit for bit the same"
