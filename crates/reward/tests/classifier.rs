//! A real network as a judge: what it says of a frame depends on that frame alone.
#![allow(clippy::unwrap_used)] // a test fails by panicking

use std::sync::Arc;

use plaudit_core::{End, FrameShape, Frames, Obs, ObsRow, Reward, Score, Seed, Segment, StepRow};
use plaudit_nn::Weights;
use plaudit_nn::classifier::{AdamW, Arch, ClassifierSettings, Device, Scorer, Trainer};
use plaudit_reward::{
    Classifier, Entry, FrameJudge, FrameReward, JudgeError, Moment, Pay, Rule, Seat, Sight, When,
};

const SIDE: usize = 32;

fn settings(keys: &[&str]) -> ClassifierSettings {
    ClassifierSettings {
        arch: Arch::Resnet18,
        hidden_dim: Some(8),
        image_size: [3, SIDE, SIDE],
        image_keys: keys.iter().map(|key| key.to_string()).collect(),
        ..ClassifierSettings::default()
    }
}

fn weights(settings: &ClassifierSettings) -> Weights {
    Trainer::new(settings, AdamW::default(), 3).unwrap().weights()
}

fn sight(camera: &str, back: usize) -> Sight {
    Sight { camera: camera.into(), back }
}

fn classifier(keys: &[&str], cameras: &[&str]) -> Classifier {
    let settings = settings(keys);
    let scorer = Scorer::new(&settings, &weights(&settings), Device::Cpu).unwrap();
    Classifier::new(scorer, cameras.iter().map(|camera| sight(camera, 0)).collect(), None)
}

/// `count` moments, each with a picture of its own on both cameras.
fn moments(count: usize, seed: u64) -> Obs {
    let shape = FrameShape::rgb(SIDE, SIDE);
    let noise = |seed: Seed| {
        let mut rng = seed.rng();
        Frames::new(shape, (0..count * shape.bytes()).map(|_| rng.below(256) as u8).collect()).unwrap()
    };
    let seed = Seed::new(seed);
    Obs::from_state(count, vec![0.0; count])
        .unwrap()
        .with_camera("base_camera", noise(seed.purpose("base")))
        .unwrap()
        .with_camera("hand_camera", noise(seed.purpose("hand")))
        .unwrap()
}

fn scores(judge: &dyn FrameJudge, rows: &[ObsRow<'_>]) -> Vec<f32> {
    let moments: Vec<_> = rows.iter().map(|row| Moment::alone(*row)).collect();
    judge.scores(&moments).unwrap().into_iter().map(Score::get).collect()
}

#[test]
fn a_frame_has_the_same_score_alone_and_among_others() {
    let judge = classifier(&["main_images"], &["base_camera"]);
    let obs = moments(9, 1);
    let rows: Vec<_> = (0..9).map(|row| obs.row(row)).collect();
    let together = scores(&judge, &rows);
    let alone: Vec<f32> = rows.iter().flat_map(|row| scores(&judge, &[*row])).collect();
    let backwards: Vec<_> = rows.iter().rev().copied().collect();
    let backwards: Vec<f32> = scores(&judge, &backwards).into_iter().rev().collect();
    assert!(together.windows(2).any(|pair| pair[0] != pair[1]), "{together:?}");
    assert_eq!(together, alone);
    assert_eq!(together, backwards);
    assert!(scores(&judge, &[]).is_empty());
}

#[test]
fn each_camera_is_looked_at_as_the_part_it_plays() {
    let obs = moments(3, 2);
    let rows: Vec<_> = (0..3).map(|row| obs.row(row)).collect();
    let both = classifier(&["main_images", "wrist_images"], &["base_camera", "hand_camera"]);
    let swapped = classifier(&["main_images", "wrist_images"], &["hand_camera", "base_camera"]);
    assert_ne!(scores(&both, &rows), scores(&swapped, &rows));
    let blind = classifier(&["main_images"], &["side_camera"]);
    let moments: Vec<_> = rows.iter().map(|row| Moment::alone(*row)).collect();
    assert!(
        matches!(blind.scores(&moments), Err(JudgeError::Camera { camera }) if &*camera == "side_camera")
    );
}

#[test]
fn a_view_of_the_past_is_what_was_seen_then() {
    let settings = settings(&["main_images", "main_images@-2"]);
    let scorer = Scorer::new(&settings, &weights(&settings), Device::Cpu).unwrap();
    let judge = |backs: [usize; 2]| {
        Classifier::new(scorer.clone(), backs.map(|back| sight("base_camera", back)).into(), None)
    };
    let obs = moments(4, 3);
    let [now, one, two, three] = [0, 1, 2, 3].map(|row| obs.row(row));
    let score = |judge: Classifier, now, past| judge.scores(&[Moment::with_past(now, past)]).unwrap()[0];
    let looked_back = score(judge([0, 2]), now, vec![one, two, three]);
    assert_eq!(judge([0, 2]).reach(), 2);
    assert_eq!(looked_back, score(judge([0, 1]), now, vec![two]));
    assert_ne!(looked_back, score(judge([0, 1]), now, vec![one]));
    assert_eq!(looked_back, score(judge([0, 2]), now, vec![two]), "an episode that began one step ago");
}

#[test]
fn broken_weights_are_named_and_nobody_is_paid_by_them() {
    let settings = settings(&["main_images"]);
    let mut broken = Weights::new();
    for (name, array) in weights(&settings).iter() {
        match name {
            "backbone.fc.3.bias" => broken.insert_f32(name, &[1], &[f32::NAN]),
            _ => broken.insert(name, array.clone()),
        }
    }
    let scorer = Scorer::new(&settings, &broken, Device::Cpu).unwrap();
    let judge = Classifier::new(scorer, vec![sight("base_camera", 0)], None);
    let obs = moments(1, 1);
    let error = judge.scores(&[Moment::alone(obs.row(0))]).unwrap_err().to_string();
    let words = "the judge gives moment 0 the score NaN, which is no probability; its weights are broken";
    assert_eq!(error, words);
}

#[test]
fn a_cut_segment_is_paid_to_the_bit_as_the_whole() {
    let seat = Arc::new(Seat::of(Box::new(classifier(&["main_images"], &["base_camera"]))));
    let reward = FrameReward {
        entry: Entry::named("model"),
        seat,
        when: When::EveryStep,
        rule: Rule::default(),
        pay: Pay::Score,
    };
    let segment = |steps: std::ops::Range<u64>| {
        let mut segment = Segment::continuing(moments(3, steps.start), vec![], vec![steps.start as usize; 3]);
        for t in steps {
            let zero = vec![0.0; 3];
            let step = StepRow {
                actions: zero.clone(),
                env_reward: zero,
                end: vec![End::No; 3],
                success: vec![false; 3],
            };
            segment.push(step, moments(3, t + 1), vec![]).unwrap();
        }
        segment
    };
    let whole = reward.label(&segment(0..5)).unwrap().total;
    let parts = [segment(0..2), segment(2..5)].map(|part| reward.label(&part).unwrap().total);
    assert_eq!(parts.concat(), whole);
}
