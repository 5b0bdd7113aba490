//! A model that learns while a policy fools it, on images small enough to learn in seconds.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

use std::path::Path;
use std::sync::Arc;

use plaudit_core::{
    End, FrameShape, Frames as CameraFrames, Obs, RewardColumn, Seed, Segment, StepRow, Term,
};
use plaudit_data::labelled::{LabelledData, ReadOptions};
use plaudit_nn::Weights;
use plaudit_nn::classifier::{AdamW, Arch, ClassifierSettings, Device, Loss, Trainer};
use plaudit_pyfiles::{self as pyfiles, Array, PyValue, Storages};
use plaudit_reward::augment::Augment;
use plaudit_reward::card::ModelCard;
use plaudit_reward::dataset::{Batch, Frames};
use plaudit_reward::online::{
    Hardening, HardeningData, ModelInUse, OnlineSettings, OnlineTraining, PolicyFrames, PolicyLabel,
    RoundOutcome, RoundResult, WhichFrames,
};
use plaudit_reward::open::trained_model;
use plaudit_reward::{CameraView, RewardModelError, RewardModelSource};

const SIDE: usize = 16;
const SHAPE: FrameShape = FrameShape { height: SIDE, width: SIDE, channels: 3 };

/// What an image shows.
#[derive(Clone, Copy, PartialEq)]
enum Shown {
    /// A bright square on the left.
    Success,
    /// One on the right.
    Failure,
    /// One on the left and one on the right: never in the data, and a success to a model that looks to the left.
    Trick,
}

fn image(shown: Shown, number: u64) -> Vec<u8> {
    let mut rng = Seed::new(7).index(number).rng();
    let mut pixels: Vec<u8> = (0..SHAPE.bytes()).map(|_| rng.below(90) as u8).collect();
    let squares: &[usize] = match shown {
        Shown::Success => &[1],
        Shown::Failure => &[10],
        Shown::Trick => &[1, 10],
    };
    for left in squares {
        for row in 5..10 {
            for column in *left..left + 5 {
                pixels[(row * SIDE + column) * 3..][..3].fill(240);
            }
        }
    }
    pixels
}

/// Every second frame is a success.
fn labelled(count: u64, first: u64) -> Arc<Frames> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frames.pt");
    let shown = |number: u64| if number.is_multiple_of(2) { Shown::Success } else { Shown::Failure };
    let tensor = |number: u64| {
        let pixels = image(shown(number), first + number);
        PyValue::Tensor(Arc::new(Array::from_slice(&[SIDE, SIDE, 3], &pixels).unwrap()))
    };
    let data = PyValue::dict([
        ("images", PyValue::list((0..count).map(tensor))),
        (
            "labels",
            PyValue::list((0..count).map(|number| PyValue::Int((shown(number) == Shown::Success).into()))),
        ),
    ]);
    pyfiles::write_pt(&path, &data, Storages::Shared).unwrap();
    let data = LabelledData::read(&path, &ReadOptions::default(), &|_| {}).unwrap();
    let picks = data.all();
    Arc::new(Frames::new(&["main_images".parse().unwrap()], vec![(Arc::new(data), picks)]).unwrap())
}

fn network() -> ClassifierSettings {
    ClassifierSettings {
        arch: Arch::Resnet10,
        hidden_dim: Some(16),
        image_size: [3, 32, 32],
        ..ClassifierSettings::default()
    }
}

/// A model that learned from the data what success is.
fn trained(data: &Frames) -> Trainer {
    let mut trainer = Trainer::new(&network(), AdamW::default(), 5).unwrap();
    for step in 0..30u64 {
        let numbers: Vec<usize> = (0..16).map(|at| (step as usize * 16 + at) % data.len()).collect();
        let batch = Batch::of(data, &numbers);
        trainer
            .accumulate(&batch.images().unwrap(), &batch.labels, None, Loss::Bce, 1.0, Seed::new(step))
            .unwrap();
        trainer.step(1e-3, Some(1.0)).unwrap();
    }
    trainer
}

fn settings() -> OnlineSettings {
    OnlineSettings {
        every: 1,
        steps: 25,
        batch: 8,
        lr: 5e-4,
        policy_frames: PolicyLabel::Unlabelled,
        prior: 0.3,
        labelled_weight: 0.5,
        frames: 64,
        min_frames: 16,
        auc_margin: 0.05,
        augment: Augment::default(),
        seed: Seed::new(3),
    }
}

fn online(settings: OnlineSettings, background: bool) -> OnlineTraining {
    let data = HardeningData { train: labelled(64, 0), held_out: labelled(32, 1000) };
    let trainer = trained(&data.train);
    let views = vec![CameraView { camera: "main_images".into(), back: 0 }];
    let frames =
        PolicyFrames::new(WhichFrames::Ends, views.clone(), vec![SHAPE], settings.frames, settings.seed);
    let hardening = Hardening::new(settings, data, trainer, Some(0.5)).unwrap();
    let build = Box::new(move |weights: &Weights, threshold: f64| {
        let model = trained_model(&network(), weights, Device::Cpu, views.clone(), threshold);
        model.map(|model| Box::new(model) as _).map_err(|error| RewardModelError::Backend(Box::new(error)))
    });
    let in_use = ModelInUse { build, card: ModelCard::of(network()), version: 10 };
    OnlineTraining::new(hardening, frames, background, in_use)
}

/// Rows that end an episode with these images.
fn segment(shown: &[Shown], first: u64) -> Segment {
    let pixels: Vec<u8> =
        shown.iter().zip(first..).flat_map(|(shown, number)| image(*shown, 5000 + number)).collect();
    let rows = shown.len();
    let obs = |pixels: Vec<u8>, rows: usize| {
        let mut obs = Obs::from_state(rows, vec![0.0; rows]).unwrap();
        obs.cameras.push(("main_images".into(), CameraFrames { shape: SHAPE, pixels }));
        obs
    };
    let last = (0..rows)
        .map(|row| (row, obs(pixels[row * SHAPE.bytes()..(row + 1) * SHAPE.bytes()].to_vec(), 1)))
        .collect();
    let mut segment = Segment::starting_at(obs(vec![0; pixels.len()], rows));
    let step = StepRow {
        actions: vec![0.0; rows],
        env_reward: vec![0.0; rows],
        end: vec![End::Truncated; rows],
        success: vec![false; rows],
    };
    segment.push(step, obs(vec![0; pixels.len()], rows), last).unwrap();
    segment
}

fn column(rows: usize) -> RewardColumn {
    let term = Term { name: "model".into(), weight: 1.0, values: vec![0.0; rows] };
    RewardColumn::of_terms(vec![term], 10).unwrap()
}

/// The policy ends a third of its episodes with success and the rest with the trick.
fn updates(training: &mut OnlineTraining, steps: std::ops::RangeInclusive<u64>) -> Vec<RoundResult> {
    let mut results = Vec::new();
    for step in steps {
        let shown: Vec<Shown> =
            (0..24).map(|row| if row % 3 == 0 { Shown::Success } else { Shown::Trick }).collect();
        training.on_labelled()(&segment(&shown, step * 100), &column(24));
        results.extend(training.after_update(step).unwrap());
    }
    results
}

/// Share of such images that the newest model calls solved.
fn called(model: &plaudit_reward::LoadedModel, shown: Shown) -> f64 {
    let segment = segment(&[shown; 20], 90_000);
    let frames: Vec<_> =
        (0..20).map(|row| plaudit_reward::FrameStack::single(segment.outcome(0, row))).collect();
    let threshold = model.model.threshold().unwrap();
    let scores = model.model.scores(&frames).unwrap();
    scores.iter().filter(|score| score.get() > threshold).count() as f64 / 20.0
}

#[test]
fn a_model_unlearns_what_fools_it_and_keeps_what_success_is() {
    let mut training = online(settings(), false);
    let source = training.source();
    let results = updates(&mut training, 1..=4);
    assert_eq!(results.len(), 4);
    assert!(results[0].called_before > 0.8, "the trick works at first: {:?}", results[0]);
    assert!(
        results.iter().all(|result| matches!(result.outcome, RoundOutcome::Accepted { .. })),
        "{results:?}"
    );
    let model = source.newer().unwrap().unwrap();
    assert_eq!(model.version, 14, "one for each accepted model");
    let (tricks, successes) = (called(&model, Shown::Trick), called(&model, Shown::Success));
    assert!(
        tricks < 0.2 && successes > 0.9,
        "{tricks} of the tricks, {successes} of the successes: {results:?}"
    );
    assert!(source.newer().unwrap().is_none(), "a model is given once");
}

#[test]
fn a_worse_model_is_refused_and_the_one_before_stays() {
    let mut training = online(OnlineSettings { lr: 10.0, steps: 6, ..settings() }, false);
    let source = training.source();
    let results = updates(&mut training, 1..=2);
    for result in &results {
        assert!(matches!(result.outcome, RoundOutcome::Worse | RoundOutcome::NotFinite), "{result:?}");
    }
    assert_eq!(
        results[0].called_before, results[1].called_before,
        "the second round begins with the same model"
    );
    assert!(source.newer().unwrap().is_none());
}

fn bytes(folder: &Path) -> Vec<u8> {
    std::fs::read(folder.join("training.safetensors")).unwrap()
}

#[test]
fn a_run_that_was_stopped_goes_on_as_one_that_was_not() {
    let folder = tempfile::tempdir().unwrap();
    let [whole, half, rest] = ["whole", "half", "rest"].map(|name| {
        let place = folder.path().join(name);
        std::fs::create_dir(&place).unwrap();
        place
    });
    let short = || OnlineSettings { steps: 4, ..settings() };
    let mut training = online(short(), false);
    let expected = updates(&mut training, 1..=3);
    training.save(&whole).unwrap();

    let mut first = online(short(), false);
    updates(&mut first, 1..=2);
    first.save(&half).unwrap();
    drop(first);
    let mut second = online(short(), false);
    second.restore(&half).unwrap();
    assert_eq!(second.source().newer().unwrap().unwrap().version, 12, "the model in use is used again");
    let found = updates(&mut second, 3..=3);
    second.save(&rest).unwrap();
    assert_eq!(found[0].auc.to_bits(), expected[2].auc.to_bits());
    assert!(bytes(&rest) == bytes(&whole), "weights, moments, frames and counts are the same bytes");
    let card = ModelCard::from_header(Weights::read(rest.join("model.safetensors")).unwrap().metadata());
    assert!(card.unwrap().unwrap().threshold.is_some(), "the model can be used on its own");
}

#[test]
fn rounds_beside_the_rollouts_give_their_model_later() {
    let mut training = online(OnlineSettings { steps: 2, ..settings() }, true);
    let source = training.source();
    assert!(updates(&mut training, 1..=1).is_empty(), "the round has just begun");
    let folder = tempfile::tempdir().unwrap();
    let result = training.save(folder.path()).unwrap().unwrap(); // waits for it
    assert_eq!(result.round, 1);
    assert!(source.newer().unwrap().is_some());
}

#[test]
fn images_of_another_size_are_refused_by_name() {
    let mut training = online(settings(), false);
    let mut other = segment(&[Shown::Success; 2], 0);
    for (_, _, obs) in &mut other.last {
        let shape = FrameShape { height: 8, width: 8, channels: 3 };
        obs.cameras[0].1 = CameraFrames { shape, pixels: vec![0; shape.bytes()] };
    }
    training.on_labelled()(&other, &column(2));
    let said = training.after_update(1).unwrap_err().to_string();
    assert!(said.contains("main_images") && said.contains("8x8x3") && said.contains("16x16x3"), "{said}");
}
