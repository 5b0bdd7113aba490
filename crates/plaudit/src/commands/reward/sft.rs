//! `plaudit reward sft`: a vision-language model learns to judge windows.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use clap::Args;
use plaudit_core::{Emit, Event, Level};
use plaudit_data::windows::{Objective, WindowRow, Windows};
use plaudit_nn::classifier::Sharding;
use plaudit_reward::metrics::LabelConfusion;
use plaudit_reward::sft::{JudgeMetrics, JudgeTraining, ObjectiveMetrics, TrainableJudge, answers};
use plaudit_reward::train::{Checkpoints, Progress, StopReason, TrainOutcome};

use super::train::failure;
use super::training_run::{FirstRank, end_reason, refuse_other_start, resume_point, train_on_rank};
use crate::build::{self, JudgeData};
use crate::cli::{RunArgs, Verbosity};
use crate::config::{LoadedConfig, Purpose};
use crate::console;
use crate::device::DeviceChoice;
use crate::failure::Failure;
use crate::load;
use crate::ranks::{Launch, Rank, RankArgs};
use crate::run::Run;

/// Tune a vision-language model to judge whether windows of frames show progress
///
/// From the windows of `plaudit dataset windows`. With actor.model.is_lora, adapters learn and are saved as the peft package
/// does; else all weights learn, and a Hugging Face folder is saved. The best model by `runner.early_stop.monitor` is kept
/// in checkpoints/best_model of the run directory.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit reward sft qwen3vl_sft_vlm_trend_reward \\
      data.data_root=windows actor.model.model_path=Qwen3-VL-4B-Instruct
  plaudit reward sft qwen3vl_sft_vlm_trend_reward --device cuda \\
      data.data_root=windows actor.model.model_path=Qwen3-VL-4B-Instruct
  plaudit reward sft pickcube_trend_sft
  plaudit reward sft pickcube_trend_sft \\
      runner.resume_dir=logs/20260801-12:00:00-pickcube_trend_sft
  plaudit reward sft pickcube_trend_sft --ranks 2 actor.micro_batch_size=16
  mpirun -n 2 plaudit reward sft pickcube_trend_sft actor.micro_batch_size=16")]
pub struct Sft {
    /// Which config.
    #[command(flatten)]
    config: RunArgs,
    #[command(flatten)]
    ranks: RankArgs,
    /// Where to train: auto, cpu, cuda or cuda:N; auto takes the GPU if there is one [default: actor.model.device]
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceChoice>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Sft {
    /// Does it.
    pub(super) fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        let launch = Launch::of(&self.ranks)?;
        let verbosity = launch.verbosity(verbosity);
        let (loaded, data) = launch.agree(self.load(verbosity))?;
        let sharding = launch.agree(build::sharding(&loaded, launch.world()).map_err(Failure::from))?;
        let work = |rank: &Rank| self.on_rank(rank, &loaded, &data, sharding, verbosity);
        let Some(summary) = launch.run(work)? else { return Ok(()) };
        console::print(&if self.json { summary.json() } else { summary.text() })
    }

    /// The config, and the windows it names.
    fn load(&self, verbosity: Verbosity) -> Result<(LoadedConfig, JudgeData), Failure> {
        let mut config = self.config.clone();
        config.config.words.extend(self.device.map(|device| format!("actor.model.device={device}")));
        let loaded = load::to_run(&config, verbosity)?;
        refuse_other_work(&loaded)?;
        let data = build::judge_data(&loaded)?;
        Ok((loaded, data))
    }

    /// Trains on one rank. The first gives what a person reads, unless it was interrupted.
    fn on_rank(
        &self,
        rank: &Rank,
        loaded: &LoadedConfig,
        data: &JudgeData,
        sharding: Sharding,
        verbosity: Verbosity,
    ) -> Result<Option<Summary>, Failure> {
        let training = rank.agree(new_training(loaded, data, rank.sync.world()))?;
        refuse_other_start(rank, loaded, || window_lines(data))?;
        let first = FirstSftRank { loaded, data, steps: training.steps(), verbosity };
        let Some((run, outcome)) = train_on_rank(rank, training, sharding, &first)? else { return Ok(None) };
        let folder = Checkpoints::in_folder(&run.checkpoints_directory()).best();
        let mut command = self.config.command("reward");
        command.insert(2, "sft".into());
        command.extend(self.ranks.command());
        let ended = outcome.map(|outcome| {
            let reason = end_reason(&outcome);
            (outcome, reason)
        });
        let outcome = run.finish(ended, &rank.started_by(command))?;
        Ok((outcome.reason != StopReason::Interrupted).then_some(Summary { outcome, folder }))
    }
}

/// The first rank of a training, which has the run.
struct FirstSftRank<'a> {
    loaded: &'a LoadedConfig,
    data: &'a JudgeData,
    steps: u64,
    verbosity: Verbosity,
}

impl<'a> FirstRank<TrainableJudge<'a>> for FirstSftRank<'a> {
    fn start(&self) -> Result<Run, Failure> {
        Run::start(self.loaded, "reward_sft", "steps", self.steps, self.verbosity)
    }

    fn prepare(&self, run: &mut Run, training: &mut JudgeTraining<'a>) -> Result<(), Failure> {
        let checkpoints = Checkpoints::in_folder(&run.checkpoints_directory());
        if let Some(progress) = run.restore::<Progress<JudgeMetrics>>()? {
            let resumed = resume_point(self.loaded, &checkpoints, &progress)?;
            training.resume(progress, &resumed).map_err(failure)?;
        }
        announce(run, self.data, training);
        Ok(())
    }
}

fn new_training<'a>(
    loaded: &LoadedConfig,
    data: &'a JudgeData,
    ranks: usize,
) -> Result<JudgeTraining<'a>, Failure> {
    let settings = build::judge_training(loaded, data.train.len())?;
    let judge = build::judge(loaded, data, ranks)?;
    JudgeTraining::new(judge.trainer, judge.save, &data.train, data.val.as_ref(), settings).map_err(failure)
}

/// Every window with its question and answer, whatever its folder is called on this machine.
fn window_lines(data: &JudgeData) -> String {
    let windows = std::iter::once(&data.train).chain(&data.val);
    let line = |row: &WindowRow| {
        let file = row.pickle.file_name().unwrap_or_default().to_string_lossy();
        let mut question = DefaultHasher::new();
        row.prompt.hash(&mut question);
        let answer = row.objective.answers()[row.answer];
        format!("{file}: {answer}, question {:x}\n", question.finish())
    };
    windows.flat_map(|windows| windows.rows().map(line)).collect()
}

fn refuse_other_work(loaded: &LoadedConfig) -> Result<(), Failure> {
    let (key, message, hint) = match loaded.purpose {
        Purpose::JudgeTuning => return Ok(()),
        Purpose::RewardTraining => (
            "actor.model.model_type",
            "this trains an image classifier, and vision-language judges are tuned here",
            "set it to qwen3_vl, or use `plaudit reward train`",
        ),
        Purpose::Rl => (
            "runner.task_type",
            "this config is for reinforcement learning, not for tuning a judge",
            "start from the recipe qwen3vl_sft_vlm_trend_reward or pickcube_trend_sft",
        ),
    };
    Err(loaded.problem(key, message, hint).into())
}

/// What is trained on, and what a person should know about it.
fn announce(run: &mut Run, data: &JudgeData, training: &JudgeTraining<'_>) {
    let count = |windows: &Windows| {
        let label = |(label, count): (&str, usize)| format!("{count} {label}");
        let labels =
            |objective| windows.balance(objective).into_iter().map(label).collect::<Vec<_>>().join(", ");
        let objectives: Vec<String> = match &windows.objectives()[..] {
            [Objective::Trend] => vec![labels(Objective::Trend)],
            several => {
                several.iter().map(|objective| format!("{objective}: {}", labels(*objective))).collect()
            }
        };
        format!("{} windows ({})", windows.len(), objectives.join("; "))
    };
    let measured =
        data.val.as_ref().map_or("no validation: the last model counts as the best".into(), |val| {
            format!("validation on {}", count(val))
        });
    let (steps, epochs, numbers) =
        (training.steps(), training.epochs(), training.trainer().trainable_parameters());
    let train = count(&data.train);
    let twice = if training.recomputes() { "; layers are computed twice to save memory" } else { "" };
    let text = format!(
        "{steps} steps, {epochs:.1} epochs, on {train}; {measured}; {numbers} trainable parameters{twice}"
    );
    run.emit(Event::Notice { level: Level::Info, text });
    if let Some(episode) = shared_episode(data) {
        let text = format!(
            "windows of {episode} are in both parts, so validation says little; split by episode, as `plaudit dataset windows` does"
        );
        run.emit(Event::Notice { level: Level::Warning, text });
    }
}

/// An episode that both parts have windows of.
fn shared_episode(data: &JudgeData) -> Option<&str> {
    let train: std::collections::HashSet<&str> =
        data.train.rows().filter_map(|row| row.episode.as_deref()).collect();
    data.val.as_ref()?.rows().filter_map(|row| row.episode.as_deref()).find(|episode| train.contains(episode))
}

/// What a person reads when it is over.
struct Summary {
    outcome: TrainOutcome<JudgeMetrics>,
    folder: PathBuf,
}

impl Summary {
    fn json(&self) -> String {
        let progress = &self.outcome.progress;
        let best = progress.best.as_ref();
        let value = serde_json::json!({
            "model": self.folder.display().to_string(),
            "step": best.map_or(progress.step, |best| best.step),
            "steps": progress.step,
            "stopped_early": self.outcome.reason == StopReason::NoImprovement,
            "metrics": best.map(|best| &best.metrics),
        });
        format!("{value}\n")
    }

    fn text(&self) -> String {
        let progress = &self.outcome.progress;
        let early = if self.outcome.reason == StopReason::NoImprovement { ", stopped early" } else { "" };
        let best = progress.best.as_ref();
        let step = best.map_or(progress.step, |best| best.step);
        let mut text = format!("best model: step {step} of {}{early}\n", progress.step);
        if let Some(best) = best {
            text.push_str(&measured(&best.metrics));
        }
        let _ = writeln!(text, "{:<12}{}", "model", self.folder.display());
        text
    }
}

/// Metrics as lines, with the table of what was said about windows of each label.
fn measured(metrics: &JudgeMetrics) -> String {
    match &metrics.objectives[..] {
        [only] if only.objective == Objective::Trend => objective_lines(only),
        several => {
            several.iter().map(|found| format!("{}\n{}", found.objective, objective_lines(found))).collect()
        }
    }
}

fn objective_lines(found: &ObjectiveMetrics) -> String {
    let ObjectiveMetrics { objective, windows, loss, accuracy, balanced_accuracy, mean_error, confusion } =
        found;
    let mut text = format!(
        "  windows           {windows}\n  balanced accuracy {balanced_accuracy:.4}\n  accuracy          {accuracy:.4}\n  \
         loss              {loss:.4}\n"
    );
    if let Some(error) = mean_error {
        let _ = writeln!(text, "  mean error        {error:.4} of the task");
    }
    text + &confusion_rows(objective.answers(), confusion)
}

/// What was said about windows of each label.
pub(super) fn confusion_table(confusion: &LabelConfusion) -> String {
    confusion_rows(&answers(), &confusion.0)
}

fn confusion_rows(answers: &[&str], confusion: &[impl AsRef<[usize]>]) -> String {
    // Words need more room than digits.
    let width = answers.iter().map(|answer| answer.len()).max().unwrap_or(0).max(4) + 2;
    let mut text = format!("  {:<18}", "is \\ said");
    answers.iter().for_each(|answer| {
        let _ = write!(text, "{answer:>width$}");
    });
    text.push('\n');
    for (answer, row) in answers.iter().zip(confusion) {
        let _ = write!(text, "  {answer:<18}");
        row.as_ref().iter().for_each(|count| {
            let _ = write!(text, "{count:>width$}");
        });
        text.push('\n');
    }
    text
}
