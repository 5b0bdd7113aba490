//! A judge that learns from labelled windows.

use std::path::Path;
use std::sync::Arc;

use plaudit_core::{GradientSync, OneRank, SyncError};
use plaudit_data::windows::Windows;
use plaudit_nn::Weights;
use plaudit_nn::classifier::{Sharding, StepOutcome};
use plaudit_nn::qwen3_vl::{Example, VlmError, VlmTrainer};
use rayon::prelude::*;

use super::evaluate::evaluate_over_ranks;
use super::{InputFormat, JudgeMetrics, TargetTokens, TrendMonitor};
use crate::train::{
    Better, LoopSettings, MicroBatch, Progress, TrainError, TrainLoop, Trainable, ValidationResult,
};

/// How a judge is trained.
#[derive(Clone, Debug)]
pub struct JudgeSettings {
    /// How fast and how long.
    pub loop_settings: LoopSettings,
    /// What makes a model the best.
    pub monitor: TrendMonitor,
    /// Which tokens the loss covers.
    pub target_tokens: TargetTokens,
    /// How windows become model inputs.
    pub input_format: InputFormat,
}

/// Writes a model as it is now into a folder: adapters, or all of it.
pub type SaveModel<'a> = Box<dyn Fn(&VlmTrainer, &Path) -> Result<(), VlmError> + 'a>;

/// A judge, what it learns from, and how.
pub type JudgeTraining<'a> = TrainLoop<TrainableJudge<'a>>;

impl<'a> JudgeTraining<'a> {
    /// A training at its beginning. The first window of each part is looked at, and on a GPU memory is taken for batches of such.
    ///
    /// # Errors
    /// When nothing can be learned from these windows, the model cannot see them, or a GPU has too little memory.
    pub fn new(
        mut trainer: VlmTrainer,
        save_model: SaveModel<'a>,
        train: &'a Windows,
        val: Option<&'a Windows>,
        settings: JudgeSettings,
    ) -> Result<Self, TrainError> {
        refuse_one_answer(train)?;
        for part in std::iter::once(train).chain(val) {
            settings.input_format.inputs(trainer.processor(), part, 0)?;
        }
        for objective in train.objectives() {
            trainer.processor().tokenizer().first_tokens(objective.answers())?;
        }
        let loop_settings = settings.loop_settings.clone();
        let JudgeSettings { input_format, target_tokens, .. } = settings;
        let first = input_format.example(trainer.processor(), train, 0, target_tokens, trainer.config())?;
        let recomputes = trainer.reserve(&first, loop_settings.micro_batch)?;
        let ranks = Arc::new(OneRank);
        let model = TrainableJudge { trainer, save_model, train, val, settings, ranks, recomputes };
        Ok(Self::over(model, loop_settings, train.len()))
    }

    /// The model that learns.
    #[must_use]
    pub fn trainer(&self) -> &VlmTrainer {
        &self.model.trainer
    }

    /// Whether layers are computed twice to save memory.
    #[must_use]
    pub fn recomputes(&self) -> bool {
        self.model.recomputes
    }
}

/// A judge that learns, with its windows.
pub struct TrainableJudge<'a> {
    trainer: VlmTrainer,
    save_model: SaveModel<'a>,
    train: &'a Windows,
    val: Option<&'a Windows>,
    settings: JudgeSettings,
    ranks: Arc<dyn GradientSync>,
    recomputes: bool,
}

impl TrainableJudge<'_> {
    fn examples(&self, numbers: &[usize]) -> Result<Vec<Example>, TrainError> {
        let JudgeSettings { input_format, target_tokens, .. } = self.settings;
        let (processor, config) = (self.trainer.processor(), self.trainer.config());
        let example =
            |number: &usize| input_format.example(processor, self.train, *number, target_tokens, config);
        numbers.par_iter().map(example).collect()
    }
}

impl Trainable for TrainableJudge<'_> {
    type Metrics = JudgeMetrics;

    fn accumulate(
        &mut self,
        _: MicroBatch,
        examples: &[usize],
        scale: f64,
    ) -> Result<Option<f64>, TrainError> {
        Ok(Some(self.trainer.accumulate(&self.examples(examples)?, scale)?))
    }

    fn join_ranks(&mut self, ranks: &Arc<dyn GradientSync>, sharding: Sharding) -> Result<(), TrainError> {
        self.ranks = ranks.clone();
        Ok(self.trainer.join_ranks(ranks.clone(), sharding)?)
    }

    fn reduce(&mut self) -> Result<(), SyncError> {
        self.trainer.reduce()
    }

    fn step(&mut self, lr: f64, clip: Option<f64>) -> Result<Option<StepOutcome>, TrainError> {
        Ok(Some(self.trainer.step_over_ranks(lr, clip)?))
    }

    fn measure(&mut self) -> Result<Option<ValidationResult<JudgeMetrics>>, TrainError> {
        let Some(val) = self.val else { return Ok(None) };
        let JudgeSettings { input_format, monitor, loop_settings, .. } = &self.settings;
        let batch = loop_settings.eval_batch;
        let metrics = evaluate_over_ranks(&*self.ranks, &self.trainer, val, input_format, batch)?;
        let better = match monitor {
            TrendMonitor::Loss => Better::Lower,
            TrendMonitor::Accuracy => Better::Higher,
        };
        let (value, values) = (metrics.value(*monitor), metrics.values());
        Ok(Some(ValidationResult { value, better, metrics, values }))
    }

    fn write(
        &self,
        folder: &Path,
        _: &Progress<JudgeMetrics>,
        _: Option<&JudgeMetrics>,
    ) -> Result<(), TrainError> {
        Ok((self.save_model)(&self.trainer, folder)?)
    }

    fn state(&self) -> Result<Option<Weights>, TrainError> {
        Ok(self.trainer.state_over_ranks()?)
    }

    fn restore(&mut self, state: &Weights) -> Result<(), TrainError> {
        Ok(self.trainer.restore(state)?)
    }

    fn name(&self, example: usize) -> String {
        let pickle = &self.train.row(example).pickle;
        pickle.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// Whoever sees one answer only learns to say it, whatever is shown.
fn refuse_one_answer(train: &Windows) -> Result<(), TrainError> {
    for objective in train.objectives() {
        let balance = train.balance(objective);
        let mut present = balance.iter().filter(|(_, count)| *count > 0);
        if let (Some((answer, count)), None) = (present.next(), present.next()) {
            return Err(TrainError::OneAnswer { count: *count, answer: answer.to_string() });
        }
    }
    Ok(())
}
