//! `plaudit reward eval --readout`: what a vision-language model says of whole episodes, read in any of several ways.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use plaudit_core::Seed;
use plaudit_data::windows::Objective;
use plaudit_nn::qwen3_vl::{FrameSampling, PromptLayout};
use plaudit_reward::audit::Interval;
use plaudit_reward::dataset::Frames;
use plaudit_reward::metrics::{EpisodeScores, ProgressIntervals};
use plaudit_reward::open::{OpenOptions, OpenVlm};
use plaudit_reward::sft::DEFAULT_FPS;
use plaudit_reward::trend::{
    AnswerPlace, EpisodeJudge, EpisodeReadout, EpisodeValues, JudgeFolder, LocalVlm, PREFIX_FPS,
    PrefixFormat, ReadoutSettings, TOPREWARD_PROMPT, WindowFormat, WordMeasure, WordReadout, mean_interval,
};
use serde_json::json;

use super::super::audit::interval;
use super::super::checkpoint::{no_gpu, unopened};
use super::super::data::{FrameReader, as_failure, views};
use super::super::eval::{RESAMPLES, csv_field, output_folder};
use super::JudgeArgs;
use crate::build::judge_device;
use crate::cli::Verbosity;
use crate::commands::rule_args::RuleArgs;
use crate::config::block::flag_words;
use crate::console;
use crate::failure::Failure;
use crate::output;
use crate::progress::{ProgressBar, ProgressUpdate};

/// How a judge is asked about episodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in super::super) enum Readout {
    /// Windows of the episode, as it was tuned: votes add up
    Trend,
    /// TOPReward: log P(True) that the episode so far completes the task, by a model that was tuned for nothing
    Topreward,
    /// How far the episode so far is: the expected digit, of a judge tuned for progress
    Progress,
    /// Whether the episode so far is a success: the probability of yes, of a judge tuned for success
    Success,
    /// A number of the episode so far, from how likely words of your own are
    Words,
    /// Generative value learning: percentages of frames in random order, in words
    Gvl,
    /// Which of two episodes gets further: a solved one and a failed one
    Preference,
}

impl Readout {
    /// What a judge would be tuned for that is read so.
    fn objective(self) -> Option<Objective> {
        match self {
            Self::Trend => Some(Objective::Trend),
            Self::Progress => Some(Objective::Progress),
            Self::Success => Some(Objective::Success),
            Self::Preference => Some(Objective::Preference),
            Self::Topreward | Self::Words | Self::Gvl => None,
        }
    }
}

/// What is said about episodes and how a judge is asked about them.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Vision-language judges on episodes")]
pub(in super::super) struct EpisodeArgs {
    /// Measure on whole episodes, and read the answers so: value-order correlation, Kendall's tau, AUC, with intervals
    #[arg(long, value_name = "WHICH", value_enum)]
    pub(in super::super) readout: Option<Readout>,
    /// The task in words
    #[arg(long, value_name = "WORDS", requires = "readout")]
    task: Option<String>,
    /// With --readout words: the question; {task} is filled in
    #[arg(long, value_name = "WORDS", requires = "readout")]
    prompt: Option<String>,
    /// With --readout words: the words, with commas, such as Yes,No; each must begin with another token
    #[arg(long, value_name = "WORDS", value_delimiter = ',', requires = "readout")]
    words: Vec<String>,
    /// With --word-measure expected-score: what each word is worth, with commas
    #[arg(
        long,
        value_name = "NUMBERS",
        value_delimiter = ',',
        allow_negative_numbers = true,
        requires = "words"
    )]
    word_values: Vec<f64>,
    /// With --readout words: what is made of how likely the words are [default: probability]
    #[arg(long, value_name = "MEASURE", requires = "words",
        value_parser = flag_words::<WordMeasure>(&["probability", "expected-score", "log-odds", "logprob"]))]
    word_measure: Option<WordMeasure>,
    /// Points of each episode that are asked about
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=256))]
    points: u32,
    /// Frames of an episode so far that are shown at most
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=256))]
    max_frames: u32,
}

/// A measurement about to be made.
pub(in super::super) struct EpisodeEvalRun<'a> {
    pub(in super::super) judge: JudgeFolder,
    pub(in super::super) asked: &'a JudgeArgs,
    pub(in super::super) episodes: &'a EpisodeArgs,
    pub(in super::super) rules: &'a RuleArgs,
    pub(in super::super) readout: Readout,
    pub(in super::super) data: &'a [PathBuf],
    pub(in super::super) output: Option<PathBuf>,
    pub(in super::super) json: bool,
}

/// What was found of all episodes.
enum Found {
    Values { scores: Vec<EpisodeScores>, intervals: ProgressIntervals, table: String, unread: usize },
    Preference { right: Option<Interval>, pairs: usize, table: String, unread: usize },
}

impl EpisodeEvalRun<'_> {
    pub(in super::super) fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        let bar = ProgressBar::new("reward eval", verbosity);
        let (device, precision) =
            judge_device(self.asked.device.choice(), self.asked.bf16).map_err(no_gpu)?;
        let options = OpenOptions { device, precision, ..OpenOptions::default() };
        let opened = OpenVlm::open(self.judge.clone(), &options).map_err(unopened)?;
        let frames = self.frames(&opened.model, &bar)?;
        let judge = self.episode_judge(&opened.model)?;
        let began = Instant::now();
        let (found, questions) = match self.readout {
            Readout::Preference => self.preferences(&judge, &frames, &bar)?,
            _ => self.values(&judge, &frames, &bar)?,
        };
        let took = began.elapsed();
        drop(bar);
        let folder = output_folder(self.output.clone())?;
        let table = match &found {
            Found::Values { table, .. } | Found::Preference { table, .. } => table,
        };
        output::write("--output-dir", &folder.join("episodes.csv"), table.as_bytes())?;
        let name = opened.folder.own().display().to_string();
        let seconds = per_question(took, questions);
        let text = match self.json {
            true => found.json(&name, seconds, &folder.display().to_string()),
            false => format!("{}  written to        {}\n", found.text(seconds), folder.display()),
        };
        console::print(&text)
    }

    /// The cameras that the judge was tuned with; else the main one.
    fn frames(&self, model: &LocalVlm, bar: &ProgressBar) -> Result<Frames, Failure> {
        let cameras = model.window_format().map_or(1, |window| window.cameras);
        let is_main = self.asked.main_view || self.readout == Readout::Preference || cameras < 2;
        let keys: &[&str] = match is_main {
            true => &["main_images"],
            false => &["main_images", "extra_view_images"],
        };
        let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
        let views = views(&keys).map_err(|error| as_failure(&error))?;
        let reader = FrameReader { views, rules: self.rules.rules(), bar };
        let frames = reader.all(self.data).map_err(|error| as_failure(&error))?;
        if frames.is_empty() || !frames.recordings().iter().all(|data| data.in_episodes) {
            let help = "give folders of episodes, or a store that holds some".to_string();
            return Err(Failure::usage("there are no whole episodes to measure on", help));
        }
        Ok(frames)
    }

    fn episode_judge<'m>(&self, model: &'m LocalVlm) -> Result<EpisodeJudge<'m>, Failure> {
        let card = model.card();
        let tuned = card.and_then(|card| card.questions.first().filter(|_| card.questions.len() == 1));
        let needs_task = self.readout != Readout::Trend || tuned.is_none();
        let task = match &self.episodes.task {
            Some(task) => task.trim().to_string(),
            None if needs_task => {
                let help = "describe it: --task 'Pick up the red cube.'".to_string();
                return Err(Failure::usage("the judge is asked about a task, and nobody says which", help));
            }
            None => String::new(),
        };
        Ok(EpisodeJudge {
            model,
            layout: card.and_then(|card| card.prompt_layout).unwrap_or(PromptLayout::VideosFirst),
            points: self.episodes.points as usize,
            prefix: self.prefix_format(model),
            readout: self.episode_readout(model, &task, tuned.filter(|_| self.episodes.task.is_none()))?,
            task,
        })
    }

    /// As in the tuning, where the judge was tuned for what it is asked.
    fn prefix_format(&self, model: &LocalVlm) -> PrefixFormat {
        let tuned = model
            .card()
            .zip(self.readout.objective())
            .and_then(|(card, objective)| card.window.filter(|_| card.objectives.contains(&objective)));
        match tuned {
            Some(WindowFormat { frames, fps, sampling, .. }) => PrefixFormat { frames, fps, sampling },
            None => PrefixFormat {
                frames: self.episodes.max_frames as usize,
                fps: PREFIX_FPS,
                sampling: FrameSampling::All,
            },
        }
    }

    fn episode_readout(
        &self,
        model: &LocalVlm,
        task: &str,
        tuned: Option<&String>,
    ) -> Result<EpisodeReadout, Failure> {
        let EpisodeArgs { prompt, words, word_values, word_measure, .. } = self.episodes;
        if self.readout != Readout::Words && (prompt.is_some() || !words.is_empty()) {
            let message = "--prompt and --words are for --readout words";
            return Err(Failure::usage(message, None));
        }
        match self.readout {
            Readout::Trend => {
                let window = model.window_format();
                Ok(EpisodeReadout::Trend {
                    window: window.map_or(5, |window| window.frames),
                    fps: window.map_or(DEFAULT_FPS, |window| window.fps),
                    sampling: window.map(|window| window.sampling).unwrap_or_default(),
                    question: tuned.cloned(),
                    settings: ReadoutSettings {
                        temperature: model.temperature(),
                        ..ReadoutSettings::default()
                    },
                })
            }
            Readout::Topreward => Ok(EpisodeReadout::Words {
                prompt: TOPREWARD_PROMPT.into(),
                answer: AnswerPlace::SameTurn,
                readout: WordReadout::topreward(),
            }),
            Readout::Words => {
                let Some(prompt) = prompt.clone() else {
                    let help = "such as --prompt 'Is this done: {task} Answer Yes or No.' --words Yes,No"
                        .to_string();
                    return Err(Failure::usage("--readout words needs --prompt and --words", help));
                };
                let measure = word_measure.unwrap_or(WordMeasure::Probability);
                let readout = WordReadout::new(words.clone(), word_values.clone(), measure, 1.0);
                let readout = readout.map_err(|error| Failure::usage(error.to_string(), None))?;
                Ok(EpisodeReadout::Words { prompt, answer: AnswerPlace::NextTurn, readout })
            }
            Readout::Progress => Ok(self.of_objective(Objective::Progress, model, task)),
            Readout::Success => Ok(self.of_objective(Objective::Success, model, task)),
            // Two clips are compared whatever is asked of one.
            Readout::Gvl | Readout::Preference => Ok(EpisodeReadout::Gvl),
        }
    }

    fn of_objective(&self, objective: Objective, model: &LocalVlm, task: &str) -> EpisodeReadout {
        let PrefixFormat { frames, .. } = self.prefix_format(model);
        let extra_views = model.window_format().map_or(0, |window| window.cameras - 1);
        match WordReadout::of_objective(objective) {
            Some(readout) => EpisodeReadout::Words {
                prompt: objective.question(task, frames, extra_views),
                answer: AnswerPlace::NextTurn,
                readout,
            },
            None => EpisodeReadout::Gvl,
        }
    }

    fn values(
        &self,
        judge: &EpisodeJudge<'_>,
        frames: &Frames,
        bar: &ProgressBar,
    ) -> Result<(Found, usize), Failure> {
        let episodes = frames.by_episode();
        let (mut scores, mut questions, mut unread) = (Vec::new(), 0, 0);
        let mut table = String::from("episode,frame,value,success\n");
        for (done, episode) in episodes.iter().enumerate() {
            bar.show(ProgressUpdate { what: "asking", unit: "episodes", done, total: episodes.len() });
            let found = judge.values(frames, episode).map_err(|error| Failure::runtime(error, None))?;
            let EpisodeValues { points, values, questions: asked } = found;
            questions += asked;
            let name = csv_field(frames.origin(episode[0]).episode);
            let mut read = EpisodeScores { scores: Vec::new(), truth: Vec::new() };
            for (point, value) in points.iter().zip(&values) {
                // Solved once is solved: later points count as success.
                let success = episode[..=*point].iter().any(|frame| frames.success(*frame));
                let shown = value.map_or(String::new(), |value| format!("{value:.6}"));
                let _ = writeln!(table, "{name},{point},{shown},{}", u8::from(success));
                match value {
                    Some(value) => {
                        read.scores.push(*value);
                        read.truth.push(success);
                    }
                    None => unread += 1,
                }
            }
            scores.push(read);
        }
        let intervals = ProgressIntervals::of(&scores, RESAMPLES, Seed::new(0));
        Ok((Found::Values { scores, intervals, table, unread }, questions))
    }

    fn preferences(
        &self,
        judge: &EpisodeJudge<'_>,
        frames: &Frames,
        bar: &ProgressBar,
    ) -> Result<(Found, usize), Failure> {
        let is_solved = |episode: &Vec<usize>| episode.iter().any(|frame| frames.success(*frame));
        let (solved, failed): (Vec<_>, Vec<_>) = frames.by_episode().into_iter().partition(is_solved);
        if solved.is_empty() || failed.is_empty() {
            let help = "give both kinds of episodes".to_string();
            return Err(Failure::usage(
                "a solved episode and a failed one are compared, and one kind is missing",
                help,
            ));
        }
        // Each solved one with a failed one: as many pairs as there are of the rarer kind, at least.
        let pairs = solved.len().max(failed.len());
        let (mut right, mut unread) = (Vec::new(), 0);
        let mut table = String::from("solved,failed,prefers_solved\n");
        for pair in 0..pairs {
            bar.show(ProgressUpdate { what: "asking", unit: "pairs", done: pair, total: pairs });
            let (one, other) = (&solved[pair % solved.len()], &failed[pair % failed.len()]);
            let preference = judge.preference(frames, [one, other]);
            let preference = preference.map_err(|error| Failure::runtime(error, None))?;
            let shown = preference.map_or(String::new(), |preference| format!("{preference:.6}"));
            let name = |episode: &[usize]| csv_field(frames.origin(episode[0]).episode);
            let _ = writeln!(table, "{},{},{shown}", name(one), name(other));
            match preference {
                Some(preference) => right.push(f64::from(u8::from(preference > 0.5))),
                None => unread += 1,
            }
        }
        let found =
            Found::Preference { right: mean_interval(&right, RESAMPLES, Seed::new(0)), pairs, table, unread };
        Ok((found, 2 * pairs))
    }
}

fn per_question(took: Duration, questions: usize) -> f64 {
    took.as_secs_f64() / questions.max(1) as f64
}

impl Found {
    fn text(&self, seconds: f64) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "  {name:<18}{value}");
        };
        let unread = match self {
            Self::Values { scores, intervals, unread, .. } => {
                let solved = intervals.successful_episodes;
                line("episodes", format!("{}, {solved} of them solved", scores.len()));
                line("value order (VOC)", interval(intervals.voc));
                line("Kendall's tau", interval(intervals.kendall));
                line("success AUC", interval(intervals.last_frame_auc));
                unread
            }
            Self::Preference { right, pairs, unread, .. } => {
                line("pairs", format!("{pairs}, a solved episode and a failed one each"));
                line("prefers solved", interval(*right));
                unread
            }
        };
        line("latency", format!("{:.1} ms per question", seconds * 1e3));
        if *unread > 0 {
            line("unread", format!("{unread} answers without a number"));
        }
        text
    }

    fn json(&self, model: &str, seconds: f64, folder: &str) -> String {
        let mut value = match self {
            Self::Values { scores, intervals, unread, .. } => {
                json!({"episodes": scores.len(), "progress": intervals, "unread": unread})
            }
            Self::Preference { right, pairs, unread, .. } => {
                json!({"pairs": pairs, "prefers_solved": right, "unread": unread})
            }
        };
        value["model"] = model.into();
        value["seconds_per_question"] = seconds.into();
        value["output_dir"] = folder.into();
        format!("{value}\n")
    }
}
