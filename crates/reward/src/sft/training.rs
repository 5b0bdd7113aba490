//! A judge that learns from labelled windows.

use std::path::Path;

use plaudit_data::windows::Windows;
use plaudit_nn::Weights;
use plaudit_nn::classifier::StepOutcome;
use plaudit_nn::qwen3_vl::{Example, Tuner, VlmError};
use rayon::prelude::*;

use super::{Learned, Showing, TrendMetrics, TrendMonitor, answers, evaluate_windows};
use crate::train::{
    Better, Checkpoints, Host, Lessons, Measured, Micro, Outcome, Pace, Progress, Pupil, Resumed, TrainError,
};

/// How a judge is trained.
#[derive(Clone, Debug)]
pub struct JudgeSettings {
    /// How fast and how long.
    pub pace: Pace,
    /// What makes a model the best.
    pub monitor: TrendMonitor,
    /// Which tokens are learned.
    pub learned: Learned,
    /// How windows are shown.
    pub showing: Showing,
}

/// Writes a model as it is now into a folder: adapters, or all of it.
pub type SaveModel<'a> = Box<dyn Fn(&Tuner, &Path) -> Result<(), VlmError> + 'a>;

/// A judge, what it learns from, and how.
pub struct JudgeTraining<'a> {
    lessons: Lessons<JudgePupil<'a>>,
}

impl<'a> JudgeTraining<'a> {
    /// A training at its beginning. The first window of each part is looked at.
    ///
    /// # Errors
    /// When nothing can be learned from these windows, or the model cannot see them.
    pub fn new(
        tuner: Tuner,
        save_model: SaveModel<'a>,
        train: &'a Windows,
        val: Option<&'a Windows>,
        settings: JudgeSettings,
    ) -> Result<Self, TrainError> {
        refuse_one_answer(train)?;
        for part in std::iter::once(train).chain(val) {
            settings.showing.inputs(tuner.processor(), part, 0)?;
        }
        tuner.processor().tokenizer().first_tokens(&answers())?;
        let pace = settings.pace.clone();
        let pupil = JudgePupil { tuner, save_model, train, val, settings };
        Ok(Self { lessons: Lessons::new(pupil, pace, train.len()) })
    }

    /// Goes on from a checkpoint.
    ///
    /// # Errors
    /// When it is of another model.
    pub fn resume(&mut self, progress: Progress<TrendMetrics>, from: &Resumed) -> Result<(), TrainError> {
        self.lessons.resume(progress, from)
    }

    /// How many steps there are in all.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.lessons.steps()
    }

    /// How many times all steps together go through the training windows.
    #[must_use]
    pub fn epochs(&self) -> f64 {
        self.lessons.epochs()
    }

    /// The model that learns.
    #[must_use]
    pub fn tuner(&self) -> &Tuner {
        &self.lessons.pupil.tuner
    }

    /// Trains to the end, or until there is a reason to stop.
    ///
    /// # Errors
    /// When the loss leaves the numbers, or a checkpoint cannot be written. What was saved before stays.
    pub fn run(
        self,
        checkpoints: &Checkpoints,
        host: &mut dyn Host<TrendMetrics>,
    ) -> Result<Outcome<TrendMetrics>, TrainError> {
        self.lessons.run(checkpoints, host)
    }
}

struct JudgePupil<'a> {
    tuner: Tuner,
    save_model: SaveModel<'a>,
    train: &'a Windows,
    val: Option<&'a Windows>,
    settings: JudgeSettings,
}

impl JudgePupil<'_> {
    fn examples(&self, numbers: &[usize]) -> Result<Vec<Example>, TrainError> {
        let JudgeSettings { showing, learned, .. } = self.settings;
        let (processor, config) = (self.tuner.processor(), self.tuner.config());
        let example = |number: &usize| showing.example(processor, self.train, *number, learned, config);
        numbers.par_iter().map(example).collect()
    }
}

impl Pupil for JudgePupil<'_> {
    type Metrics = TrendMetrics;

    fn accumulate(&mut self, _: Micro, examples: &[usize], scale: f64) -> Result<f64, TrainError> {
        Ok(self.tuner.accumulate(&self.examples(examples)?, scale)?)
    }

    fn step(&mut self, lr: f64, clip: Option<f64>) -> StepOutcome {
        self.tuner.step(lr, clip)
    }

    fn measure(&mut self) -> Result<Option<Measured<TrendMetrics>>, TrainError> {
        let Some(val) = self.val else { return Ok(None) };
        let JudgeSettings { showing, monitor, pace, .. } = &self.settings;
        let metrics = evaluate_windows(&self.tuner, val, showing, pace.eval_batch)?;
        let better = match monitor {
            TrendMonitor::Loss => Better::Lower,
            TrendMonitor::Accuracy => Better::Higher,
        };
        let (value, values) = (metrics.value(*monitor), metrics.values());
        Ok(Some(Measured { value, better, metrics, values }))
    }

    fn write(
        &self,
        folder: &Path,
        _: &Progress<TrendMetrics>,
        _: Option<&TrendMetrics>,
    ) -> Result<(), TrainError> {
        Ok((self.save_model)(&self.tuner, folder)?)
    }

    fn state(&self) -> Weights {
        self.tuner.state()
    }

    fn restore(&mut self, state: &Weights) -> Result<(), TrainError> {
        Ok(self.tuner.restore(state)?)
    }

    fn name(&self, example: usize) -> String {
        let pickle = &self.train.row(example).pickle;
        pickle.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// Whoever sees one answer only learns to say it, whatever is shown.
fn refuse_one_answer(train: &Windows) -> Result<(), TrainError> {
    let balance = train.balance();
    let mut present = balance.iter().filter(|(_, count)| *count > 0);
    match (present.next(), present.next()) {
        (Some((answer, count)), None) => Err(TrainError::NothingToLearn(format!(
            "all {count} training windows are `{answer}`; collect episodes that succeed and fail, or lower \
             --delta-threshold of `plaudit dataset windows`"
        ))),
        _ => Ok(()),
    }
}
