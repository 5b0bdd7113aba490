//! Training end to end on images small enough to learn in seconds.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

use std::path::Path;
use std::sync::Arc;

use plaudit_core::{Emit, Event, LrDecay, Schedule, Seed};
use plaudit_data::labelled::{FramePick, LabelledData, ReadOptions};
use plaudit_nn::Weights;
use plaudit_nn::classifier::{AdamW, Arch, ClassifierSettings, Device, Loss, Scorer, Trainer};
use plaudit_pyfiles::{self as pyfiles, Array, PyValue, Storages};
use plaudit_reward::augment::Augment;
use plaudit_reward::card::ModelCard;
use plaudit_reward::dataset::{Batch, DatasetError, Frames, Manifest, TimeWarp, ViewKey};
use plaudit_reward::images::{Mistakes, preview, save_split, save_successes};
use plaudit_reward::train::{
    Checkpoints, ClassWeight, EarlyStop, Length, LoopSettings, Monitor, Progress, Settings, StopReason,
    TrainCallbacks, TrainError, Training, evaluate,
};

const SIDE: usize = 16;

/// Noise, with a bright square on the left for success and on the right for failure.
fn noise_image(success: bool, number: u64) -> Vec<u8> {
    let mut rng = Seed::new(99).index(number).rng();
    let mut pixels: Vec<u8> = (0..SIDE * SIDE * 3).map(|_| rng.below(90) as u8).collect();
    let left = if success { 1 } else { 10 };
    for row in 5..10 {
        for column in left..left + 5 {
            pixels[(row * SIDE + column) * 3..][..3].fill(240);
        }
    }
    pixels
}

fn write(path: &Path, labels: &[bool]) {
    let image = |(number, success): (usize, &bool)| {
        let pixels = noise_image(*success, number as u64);
        PyValue::Tensor(Arc::new(Array::from_slice(&[SIDE, SIDE, 3], &pixels).unwrap()))
    };
    let data = PyValue::dict([
        ("images", PyValue::list(labels.iter().enumerate().map(image))),
        ("labels", PyValue::list(labels.iter().map(|label| PyValue::Int((*label).into())))),
    ]);
    pyfiles::write_pt(path, &data, Storages::Shared).unwrap();
}

fn frames(labels: &[bool]) -> Frames {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frames.pt");
    write(&path, labels);
    let data = LabelledData::read(&path, &ReadOptions::default(), &|_| {}).unwrap();
    let picks: Vec<FramePick> = data.all();
    Frames::new(&["main_images".parse().unwrap()], vec![(Arc::new(data), picks)]).unwrap()
}

/// Every third frame is a success.
fn some(count: usize) -> Frames {
    frames(&(0..count).map(|at| at % 3 == 0).collect::<Vec<_>>())
}

fn network() -> ClassifierSettings {
    ClassifierSettings {
        arch: Arch::Resnet10,
        hidden_dim: Some(16),
        image_size: [3, 32, 32],
        ..ClassifierSettings::default()
    }
}

fn trainer() -> Trainer {
    Trainer::new(&network(), AdamW::default(), 5).unwrap()
}

fn settings(steps: u64) -> Settings {
    let schedule = Schedule { lr: 1e-3, warmup: 2, decay: LrDecay::Cosine { total: steps, min_lr: 0.0 } };
    let loop_settings = LoopSettings {
        micro_batch: 8,
        global_batch: 16,
        eval_batch: 16,
        length: Length { max_epochs: None, max_steps: Some(steps) },
        val_interval: Some(4),
        save_interval: Some(4),
        early_stop: None,
        schedule,
        clip: Some(1.0),
        shuffle: true,
        seed: Seed::new(3),
    };
    Settings {
        loop_settings,
        monitor: Monitor::Loss,
        loss: Loss::Bce,
        class_weight: ClassWeight::Balanced,
        augment: Augment { shift: 0.1, brightness: 0.2, ..Augment::default() },
        time_warp: TimeWarp::default(),
        loader_threads: 0,
    }
}

fn with_schedule(mut settings: Settings, schedule: Schedule) -> Settings {
    settings.loop_settings.schedule = schedule;
    settings
}

/// Records all events, and stops after some steps.
#[derive(Default)]
struct Listener {
    events: Vec<Event>,
    saved: Option<Progress>,
    stop_at: Option<u64>,
    step: u64,
}

impl Emit for Listener {
    fn emit(&mut self, event: Event) {
        if let Event::Progress { step } = event {
            self.step = step;
        }
        self.events.push(event);
    }
}

impl TrainCallbacks for Listener {
    fn saved(&mut self, progress: &Progress) -> Result<(), String> {
        self.saved = Some(progress.clone());
        Ok(())
    }

    fn stop(&self) -> bool {
        self.stop_at.is_some_and(|step| self.step >= step)
    }
}

impl Listener {
    fn curve(&self, name: &str) -> Vec<(u64, f64)> {
        let of = |event: &Event| match event {
            Event::Metrics { step, values } => {
                values.iter().find(|(found, _)| found == name).map(|(_, value)| (*step, *value))
            }
            _ => None,
        };
        self.events.iter().filter_map(of).collect()
    }
}

#[test]
fn a_classifier_learns_keeps_its_best_and_says_what_it_is() {
    let (train, val) = (some(60), some(24));
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = Checkpoints::in_folder(folder.path());
    let mut callbacks = Listener::default();
    let training = Training::new(trainer(), &train, Some(&val), settings(20)).unwrap();
    assert_eq!(training.steps(), 20);
    let outcome = training.run(&checkpoints, &mut callbacks).unwrap();
    assert_eq!((outcome.reason, outcome.progress.step), (StopReason::Finished, 20));
    let best = outcome.progress.best.unwrap();
    assert!(best.metrics.auc.unwrap() > 0.95, "{best:?}");
    assert_eq!(callbacks.curve("train/loss").len(), 20);
    assert_eq!(
        callbacks.curve("eval/auc").iter().map(|(step, _)| *step).collect::<Vec<_>>(),
        [4, 8, 12, 16, 20]
    );
    assert_eq!(callbacks.curve("train/learning_rate")[1], (2, 5e-4));

    let weights = Weights::read(checkpoints.best()).unwrap();
    let card = ModelCard::from_header(weights.metadata()).unwrap().unwrap();
    assert_eq!(card.settings, network());
    assert_eq!(card.metrics, Some(best.metrics));
    assert_eq!(card.threshold, Some(best.metrics.threshold));
    assert_eq!(card.class_balance, Some(train.balance()));
    assert_eq!(card.dataset, Some(Manifest::of(&train, Some(&val)).unwrap()));
    let torch = Weights::read(checkpoints.best().join("actor/model_state_dict/full_weights.pt")).unwrap();
    assert!(torch.iter().eq(weights.iter()), "the two files hold the same tensors");

    let scorer = Scorer::new(&card.settings, &weights, Device::Cpu).unwrap();
    let evaluation = evaluate(&scorer, &val, 7).unwrap();
    assert!((evaluation.metrics.auc.unwrap() - best.metrics.auc.unwrap()).abs() < 1e-9);
    let states: Vec<bool> =
        [4, 16, 20].map(|step| checkpoints.step(step).join("actor/trainer.safetensors").is_file()).into();
    assert_eq!(states, [false, false, true], "only the newest can be gone on from");
    assert!(matches!(checkpoints.resume(4), Err(TrainError::NoState { .. })));
}

#[test]
fn a_resumed_training_is_bit_exact() {
    let (train, val) = (some(40), some(12));
    let run = |stop_at: Option<u64>| {
        let folder = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::in_folder(folder.path());
        let mut callbacks = Listener { stop_at, ..Listener::default() };
        let training = Training::new(trainer(), &train, Some(&val), settings(9)).unwrap();
        let outcome = training.run(&checkpoints, &mut callbacks).unwrap();
        (outcome, folder, checkpoints, callbacks)
    };
    let (whole, _whole_folder, whole_checkpoints, whole_host) = run(None);
    let (stopped, _folder, checkpoints, callbacks) = run(Some(5));
    assert_eq!((stopped.reason, stopped.progress.step), (StopReason::Interrupted, 5));
    assert_eq!(callbacks.saved, Some(stopped.progress));

    // Fresh weights of another seed: all that counts must come from the checkpoint.
    let other = Trainer::new(&network(), AdamW::default(), 77).unwrap();
    let mut training = Training::new(other, &train, Some(&val), settings(9)).unwrap();
    training.resume(callbacks.saved.unwrap(), &checkpoints.resume(5).unwrap()).unwrap();
    let mut later = Listener::default();
    let outcome = training.run(&checkpoints, &mut later).unwrap();
    assert_eq!(outcome, whole);
    let without_times = |callbacks: &Listener, name: &str| callbacks.curve(name);
    assert_eq!(without_times(&later, "train/loss"), whole_host.curve("train/loss")[5..]);
    assert_eq!(later.curve("eval/val_loss"), whole_host.curve("eval/val_loss")[1..]);
    let bytes = |checkpoints: &Checkpoints| {
        std::fs::read(checkpoints.step(9).join("actor/trainer.safetensors")).unwrap()
    };
    assert!(bytes(&checkpoints) == bytes(&whole_checkpoints), "bit-exact");
}

#[test]
fn a_loss_that_leaves_the_numbers_names_its_batch_and_keeps_what_was_saved() {
    let (train, val) = (some(40), some(12));
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = Checkpoints::in_folder(folder.path());
    let schedule = Schedule::constant(1e20);
    let calm = Schedule { lr: 1e-4, ..schedule };
    let mut training =
        Training::new(trainer(), &train, Some(&val), with_schedule(settings(4), calm)).unwrap();
    training.run(&checkpoints, &mut Listener::default()).unwrap();
    let saved = std::fs::read(checkpoints.step(4).join("model.safetensors")).unwrap();

    training = Training::new(trainer(), &train, Some(&val), with_schedule(settings(9), schedule)).unwrap();
    let progress = Progress { step: 4, ..Progress::default() };
    training.resume(progress, &checkpoints.resume(4).unwrap()).unwrap();
    let error = training.run(&checkpoints, &mut Listener::default()).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, TrainError::Loss { .. } | TrainError::Gradient { .. }), "{text}");
    assert!(text.contains("frames ") && text.contains("and 2 more"), "{text}");
    let hint = error.hint().unwrap();
    assert!(hint.contains("global_step_4"), "{hint}");
    assert!(hint.to_lowercase().contains("lower the learning rate (now 1e20)"), "{hint}");
    assert_eq!(std::fs::read(checkpoints.step(4).join("model.safetensors")).unwrap(), saved);
}

#[test]
fn a_training_ends_when_validation_no_longer_improves() {
    let (train, val) = (some(40), some(12));
    let folder = tempfile::tempdir().unwrap();
    let still = Schedule::constant(0.0);
    let early_stop = Some(EarlyStop { patience: 2, min_delta: 0.5 });
    let mut settings = with_schedule(settings(50), still);
    settings.loop_settings.early_stop = early_stop;
    settings.loop_settings.val_interval = Some(1);
    let training = Training::new(trainer(), &train, Some(&val), settings).unwrap();
    let outcome = training.run(&Checkpoints::in_folder(folder.path()), &mut Listener::default()).unwrap();
    assert_eq!((outcome.reason, outcome.progress.step), (StopReason::NoImprovement, 3));
}

#[test]
fn without_validation_the_last_model_is_the_best() {
    let train = some(20);
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = Checkpoints::in_folder(folder.path());
    let training = Training::new(trainer(), &train, None, settings(1)).unwrap();
    let outcome = training.run(&checkpoints, &mut Listener::default()).unwrap();
    assert_eq!(outcome.progress.best, None);
    let [best, last] = [checkpoints.best(), checkpoints.step(1)].map(|place| Weights::read(place).unwrap());
    assert_eq!(best, last);
}

#[test]
fn data_that_teaches_nothing_is_refused() {
    let refused = |frames: &Frames| match Training::new(trainer(), frames, None, settings(1)) {
        Err(error) => format!("{error}; {}", error.hint().unwrap_or_default()),
        Ok(_) => panic!("trained on nothing"),
    };
    let failures = refused(&frames(&[false; 5]));
    assert!(failures.contains("all 5 training frames are labelled failure"), "{failures}");
    assert!(failures.contains("collect episodes with both"), "{failures}");
    assert!(refused(&frames(&[true; 2])).contains("labelled success"));
    let empty = Frames::new(&["main_images".parse().unwrap()], Vec::new()).unwrap();
    assert!(refused(&empty).contains("no frames"));
    let past: ViewKey = "main_images@-2".parse().unwrap();
    let unordered = frames(&[true, false]);
    let data = unordered.recordings()[0].clone();
    let error = Frames::new(&[past], vec![(data.clone(), data.all())]).unwrap_err();
    assert!(matches!(error, DatasetError::NoHistory { .. }), "{error}");
}

#[test]
fn images_are_changed_by_their_number_alone() {
    let frames = some(12);
    let augment = Augment { shift: 0.2, crop: 0.2, hue: 0.1, blur: 1.0, cutout: 0.3, ..Augment::default() };
    let make = |threads: usize, numbers: &[usize]| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| Batch::augmented(&frames, numbers, &augment, Seed::new(8)))
    };
    let (one, four) = (make(1, &[3, 5, 9]), make(4, &[9, 1, 5, 3]));
    assert_eq!(one.image(0, 0), four.image(3, 0));
    assert_eq!(one.image(2, 0), four.image(0, 0));
    assert_ne!(one.image(0, 0), Batch::of(&frames, &[3]).image(0, 0));
    let sheet = preview(&frames, &augment, |epoch| Training::epoch_seed(Seed::new(1), epoch));
    assert!(sheet.width > 7 * 128 && sheet.height > 6 * 128);
}

#[test]
fn debug_images_have_the_guides_names() {
    let frames = some(4);
    let folder = tempfile::tempdir().unwrap();
    save_split(&frames, "train", folder.path()).unwrap();
    for name in
        ["train/success/train_00000.png", "train/fail/train_00001.png", "train/success/train_00003.png"]
    {
        assert!(folder.path().join(name).is_file(), "{name}");
    }
    assert_eq!(save_successes(&frames, folder.path()).unwrap(), 2);
    let parent = frames.origin(0).folder.to_string();
    assert!(folder.path().join(format!("{parent}_frames_frame003.png")).is_file());
    let mistakes = Mistakes::worst(&frames, &[0.1, 0.8, 0.9, 0.7], 0.5, 1);
    assert_eq!(mistakes.false_positives[0].at, 2);
    assert_eq!(mistakes.false_negatives[0].at, 0);
    assert!(mistakes.sheet(&frames, 0.5).width > 128);
}
