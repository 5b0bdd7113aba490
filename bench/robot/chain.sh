#!/usr/bin/env bash
# From an empty bench to a policy, on the simulated robot with faults: demonstrations, labels by key, a reward model, its audit,
# teleoperation, RLPD over several seeds. Writes everything into the current folder; curves.py draws what came of it.
#
#     PLAUDIT=target/release/plaudit SEEDS="1 2 3" bench/robot/chain.sh
#     PLAUDIT=target/release/plaudit TASK=peginsertion SEEDS=1 MINUTES=20 bench/robot/chain.sh
#
# SPEED is how many times as fast as a real one the robot lives while it learns, MINUTES how long that is on its own clock.
set -euo pipefail
plaudit=$(realpath "$(command -v "${PLAUDIT:-plaudit}")")
here=$(cd "$(dirname "$0")" && pwd)
task=${TASK:-pickcube} seeds=${SEEDS:-"1 2 3"} speed=${SPEED:-2} minutes=${MINUTES:-60} port=${PORT:-5077}
server=http://127.0.0.1:$port
case $task in
  pickcube) scene=pick-cube id=FrankaEnv-v1 no_gripper=false frames=500 ;;
  peginsertion) scene=peg-insertion id=PegInsertionEnv-v1 no_gripper=true frames=300 ;; # two seconds of success an episode
  *) echo "TASK is pickcube or peginsertion, not $task" >&2 && exit 2 ;;
esac

if [ ! -d reward ]; then
  # The robot in one terminal, the script that demonstrates in another, a person who labels what they see in a third.
  "$plaudit" robot simulate "$scene" --port "$port" --faults "$here/faults.json" >simulate.log 2>&1 &
  robot=$!
  trap 'kill $robot 2>/dev/null || true' EXIT
  sleep 2
  "$plaudit" collect "robot_${task}_demos" env.eval.override_cfg.server_url="$server" >collect.log 2>&1 &
  demonstrations=$!
  python3 "$here/person.py" "$server" "$plaudit" robot label --server "$server" --camera hand_camera --camera base_camera \
    --image-size 64 --success $frames --fail 500 --lag 0.3 --output-dir labels >label.log 2>&1
  wait $demonstrations
  kill $robot
  "$plaudit" reward train "robot_${task}_reward" data.data_path=labels actor.model.image_keys=null runner.logger.log_path=reward
  # Other starts, and a person who is away in two of five episodes: for the audit and for nothing else.
  "$plaudit" collect "robot_${task}_demos" env.eval.seed=7 env.eval.override_cfg.sim_speed=4 --episodes 60 \
    env.eval.override_cfg.pilot_share=0.6 env.eval.data_collection.only_success=false env.eval.data_collection.save_dir=held_out
  "$plaudit" reward audit reward/checkpoints/best_model held_out || echo "the audit's exit code: $?"
  "$plaudit" robot teleop realworld_teleop --local --episodes 2 env.eval.override_cfg.robot_ip=sim \
    env.eval.init_params.id="$id" env.eval.no_gripper="$no_gripper" env.eval.override_cfg.image_side=64 \
    'reward.model.image_size=[3,64,64]' reward.model.arch=resnet10 \
    reward.model.model_path=reward/checkpoints/best_model reward.hold_steps=5 reward.reward_threshold=0.5
fi

# The environment keeps its seed: it says where things lie.
for seed in $seeds; do
  timeout --signal=TERM $((minutes * 60 / speed + 300)) "$plaudit" train "robot_${task}_rlpd" \
    reward.model.model_path=reward/checkpoints/best_model reward.model.image_keys=null reward.reward_threshold=0.5 \
    env.train.override_cfg.sim_speed="$speed" actor.seed="$seed" \
    runner.max_epochs=-1 runner.logger.log_path="seed_$seed" >"seed_$seed.log" 2>&1 || true
done
