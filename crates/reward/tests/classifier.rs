//! A real network as a reward model: the score of a frame depends on that frame alone.
#![allow(clippy::unwrap_used)] // a test fails by panicking

use std::sync::Arc;

use plaudit_core::{End, FrameShape, Frames, Obs, ObsRow, Reward, Score, Seed, Segment, StepRow};
use plaudit_nn::Weights;
use plaudit_nn::classifier::{AdamW, Arch, ClassifierSettings, Device, Scorer, Trainer};
use plaudit_reward::{
    CameraView, Classifier, FrameReward, FrameRewardModel, FrameStack, ReloadableModel, RewardKind,
    RewardModelError, RewardTiming, Rule, TermSettings,
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
    Trainer::new(settings, AdamW::default(), 3).unwrap().weights().unwrap()
}

fn view(camera: &str, back: usize) -> CameraView {
    CameraView { camera: camera.into(), back }
}

fn classifier(keys: &[&str], cameras: &[&str]) -> Classifier {
    let settings = settings(keys);
    let scorer = Scorer::new(&settings, &weights(&settings), Device::Cpu).unwrap();
    Classifier::new(scorer, cameras.iter().map(|camera| view(camera, 0)).collect(), None)
}

/// `count` frames, each with an image of its own on both cameras.
fn frames(count: usize, seed: u64) -> Obs {
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

fn scores(model: &dyn FrameRewardModel, rows: &[ObsRow<'_>]) -> Vec<f32> {
    let frames: Vec<_> = rows.iter().map(|row| FrameStack::single(*row)).collect();
    model.scores(&frames).unwrap().into_iter().map(Score::get).collect()
}

#[test]
fn a_frame_has_the_same_score_alone_and_among_others() {
    let model = classifier(&["main_images"], &["base_camera"]);
    let obs = frames(9, 1);
    let rows: Vec<_> = (0..9).map(|row| obs.row(row)).collect();
    let together = scores(&model, &rows);
    let alone: Vec<f32> = rows.iter().flat_map(|row| scores(&model, &[*row])).collect();
    let backwards: Vec<_> = rows.iter().rev().copied().collect();
    let backwards: Vec<f32> = scores(&model, &backwards).into_iter().rev().collect();
    assert!(together.windows(2).any(|pair| pair[0] != pair[1]), "{together:?}");
    assert_eq!(together, alone);
    assert_eq!(together, backwards);
    assert!(scores(&model, &[]).is_empty());
}

#[test]
fn each_camera_is_looked_at_as_the_part_it_plays() {
    let obs = frames(3, 2);
    let rows: Vec<_> = (0..3).map(|row| obs.row(row)).collect();
    let both = classifier(&["main_images", "wrist_images"], &["base_camera", "hand_camera"]);
    let swapped = classifier(&["main_images", "wrist_images"], &["hand_camera", "base_camera"]);
    assert_ne!(scores(&both, &rows), scores(&swapped, &rows));
    let blind = classifier(&["main_images"], &["side_camera"]);
    let frames: Vec<_> = rows.iter().map(|row| FrameStack::single(*row)).collect();
    assert!(
        matches!(blind.scores(&frames), Err(RewardModelError::Camera { camera }) if &*camera == "side_camera")
    );
}

#[test]
fn a_past_view_is_what_was_seen_then() {
    let settings = settings(&["main_images", "main_images@-2"]);
    let scorer = Scorer::new(&settings, &weights(&settings), Device::Cpu).unwrap();
    let model = |backs: [usize; 2]| {
        Classifier::new(scorer.clone(), backs.map(|back| view("base_camera", back)).into(), None)
    };
    let obs = frames(4, 3);
    let [now, one, two, three] = [0, 1, 2, 3].map(|row| obs.row(row));
    let score =
        |model: Classifier, now, past| model.scores(&[FrameStack::with_history(now, past)]).unwrap()[0];
    let looked_back = score(model([0, 2]), now, vec![one, two, three]);
    assert_eq!(model([0, 2]).history_len(), 2);
    assert_eq!(looked_back, score(model([0, 1]), now, vec![two]));
    assert_ne!(looked_back, score(model([0, 1]), now, vec![one]));
    assert_eq!(looked_back, score(model([0, 2]), now, vec![two]), "an episode that began one step ago");
}

#[test]
fn broken_weights_are_named_and_nothing_is_rewarded_by_them() {
    let settings = settings(&["main_images"]);
    let mut broken = Weights::new();
    for (name, array) in weights(&settings).iter() {
        match name {
            "backbone.fc.3.bias" => broken.insert_f32(name, &[1], &[f32::NAN]),
            _ => broken.insert(name, array.clone()),
        }
    }
    let scorer = Scorer::new(&settings, &broken, Device::Cpu).unwrap();
    let model = Classifier::new(scorer, vec![view("base_camera", 0)], None);
    let obs = frames(1, 1);
    let error = model.scores(&[FrameStack::single(obs.row(0))]).unwrap_err().to_string();
    let words =
        "the reward model gives frame 0 the score NaN, which is not a probability; its weights are broken";
    assert_eq!(error, words);
}

#[test]
fn a_cut_segment_has_bit_exact_rewards() {
    let model = Arc::new(ReloadableModel::fixed(Box::new(classifier(&["main_images"], &["base_camera"]))));
    let reward = FrameReward {
        term: TermSettings::named("model"),
        model,
        timing: RewardTiming::PerStep,
        rule: Rule::default(),
        kind: RewardKind::Continuous,
    };
    let segment = |steps: std::ops::Range<u64>| {
        let mut segment = Segment::continuing(frames(3, steps.start), vec![], vec![steps.start as usize; 3]);
        for t in steps {
            let zero = vec![0.0; 3];
            let step = StepRow {
                actions: zero.clone(),
                env_reward: zero,
                end: vec![End::No; 3],
                success: vec![false; 3],
            };
            segment.push(step, frames(3, t + 1), vec![]).unwrap();
        }
        segment
    };
    let whole = reward.label(&segment(0..5)).unwrap().total;
    let parts = [segment(0..2), segment(2..5)].map(|part| reward.label(&part).unwrap().total);
    assert_eq!(parts.concat(), whole);
}
