"""Scores of real episodes, for tests of what an audit promises: one line per episode, the labels of its frames and their scores.

    plaudit collect pickcube_scripted --episodes 200 actor.model.noise=0.12 env.eval.ignore_terminations=true \
        'env.eval.init_params.sensor_configs={width:64,height:64,hand_camera:{}}' env.eval.data_collection.save_dir=episodes
    plaudit collect pickcube_scripted --episodes 400 actor.model.noise=0.15 env.eval.ignore_terminations=true env.eval.seed=3 \
        'env.eval.init_params.sensor_configs={width:64,height:64,hand_camera:{}}' env.eval.data_collection.save_dir=held_out
    plaudit reward train --data episodes actor.model.arch=resnet10 'actor.model.image_size=[3,64,64]' \
        'actor.model.image_keys=[main_images,extra_view_images]' data.num_samples_per_episode=0 data.fail_success_ratio=3.0 \
        runner.max_steps=286 runner.val_check_interval=200 runner.logger.log_path=model
    plaudit reward eval model held_out --output-dir scores
    python make_scores.py scores/scores.csv > scores.txt

Every second episode is kept; scores are in ten-thousandths. Needs nothing but Python.
"""

import csv
import sys

episodes = {}
for row in csv.DictReader(open(sys.argv[1])):
    episodes.setdefault(row["episode"], []).append((float(row["score"]), row["success"]))
for frames in list(episodes.values())[::2]:
    labels = "".join(success for _, success in frames)
    scores = " ".join(str(round(10_000 * score)) for score, _ in frames)
    print(labels, scores)
