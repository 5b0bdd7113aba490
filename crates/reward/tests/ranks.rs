//! Ranks that train one model together: what one rank would have learned, to the last bit.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

use std::path::Path;
use std::sync::Arc;

use plaudit_cluster::gradients::threads;
use plaudit_core::{Emit, Event, GradientSync, LrDecay, OneRank, Schedule, Seed, SyncError};
use plaudit_data::labelled::{LabelledData, ReadOptions};
use plaudit_nn::classifier::{AdamW, Arch, ClassifierSettings, Loss, Sharding, Trainer};
use plaudit_nn::kernels::with_own_threads;
use plaudit_pyfiles::{self as pyfiles, Array, PyValue, Storages};
use plaudit_reward::augment::Augment;
use plaudit_reward::dataset::{Frames, TimeWarp};
use plaudit_reward::train::{
    Checkpoints, ClassWeight, EarlyStop, Length, LoopSettings, Monitor, Progress, ResumePoint, Settings,
    StopReason, TrainCallbacks, TrainError, TrainOutcome, Training,
};

const SIDE: usize = 16;

/// Noise, with a bright square on the left for success and on the right for failure; every third is a success.
fn frames(count: usize) -> Frames {
    let image = |number: usize| {
        let mut rng = Seed::new(99).index(number as u64).rng();
        let mut pixels: Vec<u8> = (0..SIDE * SIDE * 3).map(|_| rng.below(90) as u8).collect();
        let left = if number.is_multiple_of(3) { 1 } else { 10 };
        (5..10).for_each(|row| pixels[(row * SIDE + left) * 3..][..15].fill(240));
        PyValue::Tensor(Arc::new(Array::from_slice(&[SIDE, SIDE, 3], &pixels).unwrap()))
    };
    let label = |number: usize| PyValue::Int(number.is_multiple_of(3).into());
    let data = PyValue::dict([
        ("images", PyValue::list((0..count).map(image))),
        ("labels", PyValue::list((0..count).map(label))),
    ]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frames.pt");
    pyfiles::write_pt(&path, &data, Storages::Shared).unwrap();
    let data = LabelledData::read(&path, &ReadOptions::default(), &|_| {}).unwrap();
    let picks = data.all();
    Frames::new(&["main_images".parse().unwrap()], vec![(Arc::new(data), picks)]).unwrap()
}

fn network(arch: Arch) -> ClassifierSettings {
    ClassifierSettings {
        arch,
        hidden_dim: Some(16),
        image_size: [3, 32, 32],
        ..ClassifierSettings::default()
    }
}

/// Steps of `micro_batches` micro batches of two frames.
fn settings(steps: u64, micro_batches: usize) -> Settings {
    let schedule = Schedule { lr: 1e-3, warmup: 2, decay: LrDecay::Cosine { total: steps, min_lr: 0.0 } };
    let loop_settings = LoopSettings {
        micro_batch: 2,
        global_batch: 2 * micro_batches,
        eval_batch: 5,
        length: Length { max_epochs: None, max_steps: Some(steps) },
        val_interval: Some((steps / 2).max(1)),
        save_interval: None,
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

/// The metrics that a rank emitted, and when it asks to stop.
#[derive(Default)]
struct Listener {
    metrics: Vec<(u64, String, f64)>,
    saved: Option<Progress>,
    stop_at: Option<u64>,
    step: u64,
}

impl Emit for Listener {
    fn emit(&mut self, event: Event) {
        match event {
            Event::Progress { step } => self.step = step,
            Event::Metrics { step, values } => {
                let timeless = values.into_iter().filter(|(name, _)| !name.starts_with("time/"));
                self.metrics.extend(timeless.map(|(name, value)| (step, name, value)));
            }
            _ => {}
        }
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

/// A training as the tests vary it.
#[derive(Clone)]
struct Run<'a> {
    train: &'a Frames,
    val: Option<&'a Frames>,
    arch: Arch,
    settings: Settings,
    sharding: Sharding,
    resume: Option<(Progress, ResumePoint)>,
    /// The rank that asks to stop, and after which step.
    stop: Option<(usize, u64)>,
}

type Trained = (Result<TrainOutcome, TrainError>, Listener);

impl Run<'_> {
    fn on_rank(&self, ranks: Arc<dyn GradientSync>, checkpoints: &Checkpoints) -> Trained {
        let rank = ranks.rank();
        let stop_at = self.stop.filter(|(who, _)| *who == rank).map(|(_, step)| step);
        let mut listener = Listener { stop_at, ..Listener::default() };
        // Ranks begin with weights of their own: those of rank 0 must count.
        let trainer = Trainer::new(&network(self.arch), AdamW::default(), 5 + rank as u64).unwrap();
        let mut training = Training::new(trainer, self.train, self.val, self.settings.clone()).unwrap();
        if let Some((progress, from)) = self.resume.as_ref().filter(|_| rank == 0) {
            training.resume(progress.clone(), from).unwrap();
        }
        let joined = training.join_ranks(ranks.clone(), self.sharding);
        let done = joined.and_then(|()| training.run(checkpoints, &mut listener));
        if let Err(error) = &done {
            ranks.give_up(&error.to_string());
        }
        (done, listener)
    }

    /// On so many ranks, each with one thread; checkpoints go to a folder.
    fn on(&self, world: usize, folder: &Path) -> Vec<Trained> {
        let checkpoints = Checkpoints::in_folder(folder);
        if world == 1 {
            return vec![self.on_rank(Arc::new(OneRank), &checkpoints)];
        }
        std::thread::scope(|scope| {
            let start = |rank| {
                let checkpoints = &checkpoints;
                scope
                    .spawn(move || with_own_threads(1, || self.on_rank(Arc::new(rank), checkpoints)).unwrap())
            };
            let ranks: Vec<_> = threads::ranks(world).into_iter().map(start).collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        })
    }
}

/// The state after the last step, and everything that was measured on the way.
fn whole(run: &Run<'_>, world: usize) -> (Vec<u8>, Vec<(u64, String, f64)>, TrainOutcome) {
    let folder = tempfile::tempdir().unwrap();
    let mut trained = run.on(world, folder.path());
    let outcomes: Vec<TrainOutcome> =
        trained.iter_mut().map(|(done, _)| done.as_ref().unwrap().clone()).collect();
    assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]), "{outcomes:?}");
    let (_, first) = trained.swap_remove(0);
    for (rank, (_, listener)) in trained.iter().enumerate() {
        assert_eq!(listener.metrics, first.metrics, "rank {rank}");
        assert!(listener.saved.is_none(), "only rank 0 saves");
    }
    (state(folder.path(), outcomes[0].progress.step), first.metrics, outcomes[0].clone())
}

fn state(folder: &Path, step: u64) -> Vec<u8> {
    let file = Checkpoints::in_folder(folder).step(step).join("actor/trainer.safetensors");
    std::fs::read(file).unwrap()
}

fn run<'a>(train: &'a Frames, val: Option<&'a Frames>, steps: u64, micro_batches: usize) -> Run<'a> {
    Run {
        train,
        val,
        arch: Arch::Resnet10,
        settings: settings(steps, micro_batches),
        sharding: Sharding::Nothing,
        resume: None,
        stop: None,
    }
}

/// 200 steps: losses, metrics, weights, moments. Bit-exact, where 1e-6 would do.
#[test]
fn two_three_and_four_ranks_learn_what_one_learns() {
    let (train, val) = (frames(50), frames(13));
    for (micro_batches, worlds) in
        [(4, &[(2, Sharding::Nothing), (4, Sharding::Optimizer)][..]), (3, &[(3, Sharding::Optimizer)])]
    {
        let one = run(&train, Some(&val), 200, micro_batches);
        let (state, metrics, outcome) = whole(&one, 1);
        assert_eq!(outcome.progress.step, 200);
        for (world, sharding) in worlds {
            let found = whole(&Run { sharding: *sharding, ..one.clone() }, *world);
            assert_eq!(found.1, metrics, "{world} ranks");
            assert!(found.0 == state, "{world} ranks end elsewhere");
            assert_eq!(found.2, outcome);
        }
    }
}

/// Batch normalisation: each micro batch by its own statistics, running statistics by all in order.
#[test]
fn running_statistics_follow_the_batches_of_all_ranks() {
    let (train, val) = (frames(30), frames(7));
    let one = Run { arch: Arch::Resnet18, ..run(&train, Some(&val), 4, 4) };
    let expected = whole(&one, 1);
    for (world, sharding) in [(2, Sharding::Optimizer), (4, Sharding::Nothing)] {
        assert!(whole(&Run { sharding, ..one.clone() }, world) == expected, "{world} ranks");
    }
}

#[test]
fn a_training_goes_on_with_another_number_of_ranks() {
    let (train, val) = (frames(30), frames(7));
    let straight = run(&train, Some(&val), 6, 6);
    let (expected, metrics, outcome) = whole(&straight, 1);
    let folder = tempfile::tempdir().unwrap();
    // A rank that is not the first is asked to stop: all stop, after the same step.
    let stopping = Run { stop: Some((2, 3)), sharding: Sharding::Optimizer, ..straight.clone() };
    let stopped = stopping.on(3, folder.path());
    for (done, _) in &stopped {
        let done = done.as_ref().unwrap();
        assert_eq!((done.reason, done.progress.step), (StopReason::Interrupted, 3));
    }
    let progress = stopped[0].1.saved.clone().unwrap();
    let from = Checkpoints::in_folder(folder.path()).resume(3).unwrap();
    for (world, sharding) in [(1, Sharding::Nothing), (2, Sharding::Optimizer), (6, Sharding::Nothing)] {
        let resume = Some((progress.clone(), from.clone()));
        let later = whole(&Run { resume, sharding, ..straight.clone() }, world);
        assert!(later.0 == expected, "{world} ranks");
        assert_eq!(later.2, outcome);
        assert!(metrics.ends_with(&later.1), "{world} ranks");
    }
}

#[test]
fn ranks_agree_when_validation_no_longer_improves() {
    let (train, val) = (frames(30), frames(7));
    let mut one = run(&train, Some(&val), 50, 2);
    one.settings.loop_settings.schedule = Schedule::constant(0.0);
    one.settings.loop_settings.early_stop = Some(EarlyStop { patience: 2, min_delta: 0.5 });
    one.settings.loop_settings.val_interval = Some(1);
    let (_, _, outcome) = whole(&one, 2);
    assert_eq!((outcome.reason, outcome.progress.step), (StopReason::NoImprovement, 3));
}

#[test]
fn ranks_fail_together_and_say_whose_fault_it_was() {
    let (train, val) = (frames(30), frames(7));
    // Rank 0 cannot write: a file is in the way of its checkpoints.
    let folder = tempfile::tempdir().unwrap();
    let blocked = folder.path().join("blocked");
    std::fs::write(&blocked, b"").unwrap();
    let mut trained =
        run(&train, Some(&val), 1, 2).on(2, &blocked).into_iter().map(|(done, _)| done.unwrap_err());
    assert!(matches!(trained.next(), Some(TrainError::Folder { .. })));
    let other = trained.next().unwrap();
    let TrainError::Sync(SyncError::Peer { rank: 0, reason }) = &other else { panic!("{other}") };
    assert!(reason.contains("blocked"), "{reason}");

    // A learning rate that leaves the numbers, whoever sees it first.
    let mut wild = run(&train, Some(&val), 30, 2);
    wild.settings.loop_settings.schedule = Schedule::constant(1e20);
    let folder = tempfile::tempdir().unwrap();
    let errors: Vec<TrainError> =
        wild.on(2, folder.path()).into_iter().map(|(done, _)| done.unwrap_err()).collect();
    let own = |error: &&TrainError| matches!(error, TrainError::Loss { .. } | TrainError::Gradient { .. });
    assert!(errors.iter().any(|error| own(&error)), "{errors:?}");
}

#[test]
fn ranks_that_cannot_share_a_step_are_refused() {
    let train = frames(30);
    let folder = tempfile::tempdir().unwrap();
    for (done, _) in run(&train, None, 2, 4).on(3, folder.path()) {
        let error = done.unwrap_err().to_string();
        assert_eq!(error, "3 ranks cannot share the 4 micro batches of a step: 8 examples, 2 at once");
    }
}
