//! The ways in which a vision-language model is asked about whole episodes.

use std::fmt::Write as _;
use std::time::Instant;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use plaudit_core::Seed;
use plaudit_data::windows::Objective;
use plaudit_nn::qwen3_vl::PromptLayout;
use plaudit_reward::dataset::Frames;
use plaudit_reward::metrics::{EpisodeScores, ProgressIntervals};
use plaudit_reward::trend::{
    AnswerPlace, EpisodeClip, EpisodeJudge, EpisodeReadout, EpisodeValues, LocalVlm, PrefixFormat,
    WordMeasure, WordReadout, mean_interval,
};

use super::super::eval::{RESAMPLES, csv_field};
use super::episodes::EpisodeArgs;
use super::readout_table::{Found, Measured};
use crate::failure::Failure;
use crate::progress::{ProgressBar, ProgressUpdate};

/// How a judge is asked about episodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// All of them, in the order of a table.
    const ALL: [Self; 7] = [
        Self::Trend,
        Self::Progress,
        Self::Success,
        Self::Preference,
        Self::Words,
        Self::Topreward,
        Self::Gvl,
    ];

    /// As it is written on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Trend => "trend",
            Self::Topreward => "topreward",
            Self::Progress => "progress",
            Self::Success => "success",
            Self::Words => "words",
            Self::Gvl => "gvl",
            Self::Preference => "preference",
        }
    }

    fn help(self) -> &'static str {
        match self {
            Self::Trend => "Windows of the episode, as it was tuned: votes add up",
            Self::Topreward => {
                "TOPReward: log P(True) that the episode so far completes the task, by a model that was tuned for nothing"
            }
            Self::Progress => {
                "How far the episode so far is: the expected digit, of a judge tuned for progress"
            }
            Self::Success => {
                "Whether the episode so far is a success: the probability of yes, of a judge tuned for success"
            }
            Self::Words => "A number of the episode so far, from how likely words of your own are",
            Self::Gvl => "Generative value learning: percentages of frames in random order, in words",
            Self::Preference => "Which of two episodes gets further: a solved one and a failed one",
        }
    }

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

/// One readout, or all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum ReadoutChoice {
    One(Readout),
    All,
}

impl ReadoutChoice {
    /// What is read. Words are among all where somebody says which.
    pub(super) fn readouts(self, has_words: bool) -> Vec<Readout> {
        match self {
            Self::One(readout) => vec![readout],
            Self::All => {
                Readout::ALL.into_iter().filter(|readout| has_words || *readout != Readout::Words).collect()
            }
        }
    }
}

impl ValueEnum for ReadoutChoice {
    fn value_variants<'a>() -> &'a [Self] {
        const CHOICES: [ReadoutChoice; 8] = [
            ReadoutChoice::One(Readout::Trend),
            ReadoutChoice::One(Readout::Topreward),
            ReadoutChoice::One(Readout::Progress),
            ReadoutChoice::One(Readout::Success),
            ReadoutChoice::One(Readout::Words),
            ReadoutChoice::One(Readout::Gvl),
            ReadoutChoice::One(Readout::Preference),
            ReadoutChoice::All,
        ];
        &CHOICES
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Self::One(readout) => PossibleValue::new(readout.name()).help(readout.help()),
            Self::All => {
                PossibleValue::new("all").help("Each of them; words where --prompt and --words are given")
            }
        })
    }
}

/// A judge about to be asked in one way.
pub(super) struct ReadoutRun<'a> {
    pub(super) readout: Readout,
    judge: EpisodeJudge<'a>,
}

impl<'a> ReadoutRun<'a> {
    pub(super) fn new(
        readout: Readout,
        model: &'a LocalVlm,
        asked: &'a EpisodeArgs,
    ) -> Result<Self, Failure> {
        let judge = JudgeSetup { readout, model, asked }.episode_judge()?;
        Ok(Self { readout, judge })
    }

    pub(super) fn measure(&self, frames: &Frames, bar: &ProgressBar) -> Result<Measured, Failure> {
        let began = Instant::now();
        let (found, questions, episodes_csv) = match self.readout {
            Readout::Preference => self.preferences(frames, bar)?,
            _ => self.values(frames, bar)?,
        };
        let seconds_per_question = began.elapsed().as_secs_f64() / questions.max(1) as f64;
        Ok(Measured { readout: self.readout, found, seconds_per_question, episodes_csv })
    }

    fn values(&self, frames: &Frames, bar: &ProgressBar) -> Result<(Found, usize, String), Failure> {
        let episodes = frames.by_episode();
        let (mut scores, mut questions, mut unread) = (Vec::new(), 0, 0);
        let mut table = String::from("episode,frame,value,success\n");
        for (done, episode) in episodes.iter().enumerate() {
            bar.show(ProgressUpdate { what: "asking", unit: "episodes", done, total: episodes.len() });
            let clip = EpisodeClip::of_frames(frames, episode);
            let found = self.judge.values(&clip).map_err(|error| Failure::runtime(error, None))?;
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
        Ok((Found::Values { episodes: scores.len(), intervals, unread }, questions, table))
    }

    fn preferences(&self, frames: &Frames, bar: &ProgressBar) -> Result<(Found, usize, String), Failure> {
        let [solved, failed] = by_outcome(frames);
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
            let [first, second] = [one, other].map(|episode| EpisodeClip::of_frames(frames, episode));
            let preference = self.judge.preference([&first, &second]);
            let preference = preference.map_err(|error| Failure::runtime(error, None))?;
            let shown = preference.map_or(String::new(), |preference| format!("{preference:.6}"));
            let name = |episode: &[usize]| csv_field(frames.origin(episode[0]).episode);
            let _ = writeln!(table, "{},{},{shown}", name(one), name(other));
            match preference {
                Some(preference) => right.push(f64::from(u8::from(preference > 0.5))),
                None => unread += 1,
            }
        }
        let right = mean_interval(&right, RESAMPLES, Seed::new(0));
        Ok((Found::Preference { right, pairs, unread }, 2 * pairs, table))
    }
}

/// How a judge comes to be asked.
struct JudgeSetup<'a> {
    readout: Readout,
    model: &'a LocalVlm,
    asked: &'a EpisodeArgs,
}

impl<'a> JudgeSetup<'a> {
    fn episode_judge(&self) -> Result<EpisodeJudge<'a>, Failure> {
        let Self { model, .. } = *self;
        let card = model.card();
        let tuned = card.and_then(|card| card.questions.first().filter(|_| card.questions.len() == 1));
        let needs_task = self.readout != Readout::Trend || tuned.is_none();
        let task = match &self.asked.task {
            Some(task) => task.trim().to_string(),
            None if needs_task => {
                let help = "describe it: --task 'Pick up the red cube.'".to_string();
                return Err(Failure::usage("the judge is asked about a task, and nobody says which", help));
            }
            None => String::new(),
        };
        let prefix = PrefixFormat::of(model, self.readout.objective(), self.asked.max_frames as usize);
        Ok(EpisodeJudge {
            model,
            layout: card.and_then(|card| card.prompt_layout).unwrap_or(PromptLayout::VideosFirst),
            points: self.asked.points as usize,
            prefix,
            readout: self.episode_readout(&task, tuned.filter(|_| self.asked.task.is_none()), prefix)?,
            task,
        })
    }

    fn episode_readout(
        &self,
        task: &str,
        tuned: Option<&String>,
        prefix: PrefixFormat,
    ) -> Result<EpisodeReadout, Failure> {
        let EpisodeArgs { prompt, words, word_values, word_measure, .. } = self.asked;
        match self.readout {
            Readout::Trend => Ok(EpisodeReadout::trend(self.model, tuned.cloned())),
            Readout::Topreward => Ok(EpisodeReadout::topreward()),
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
            // Two clips are compared whatever is asked of one.
            Readout::Progress | Readout::Success | Readout::Gvl | Readout::Preference => {
                let objective = self.readout.objective();
                let tuned = objective
                    .and_then(|objective| EpisodeReadout::of_objective(self.model, objective, task, prefix));
                Ok(tuned.unwrap_or(EpisodeReadout::Gvl))
            }
        }
    }
}

/// The solved episodes, and the others.
fn by_outcome(frames: &Frames) -> [Vec<Vec<usize>>; 2] {
    let is_solved = |episode: &Vec<usize>| episode.iter().any(|frame| frames.success(*frame));
    frames.by_episode().into_iter().partition::<Vec<_>, _>(is_solved).into()
}

/// Whether there are episodes of both kinds.
pub(super) fn can_compare(frames: &Frames) -> bool {
    by_outcome(frames).iter().all(|episodes| !episodes.is_empty())
}
