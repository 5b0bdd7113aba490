//! Watching a policy that learns by a reward model: looks now and then, says what it saw, and acts on alarms.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use plaudit_core::{Emit, Event, Level, Seed};
use plaudit_reward::pictures::Png;
use plaudit_reward::watch::{
    Adjustable, Adjustment, Alarm, Compared, EpisodeSeen, Limits, Look, Rewarded, Signals, Tally,
};
use plaudit_reward::{JudgeError, Moment, Seat};
use plaudit_rl::OnPaid;

use crate::build::Watched;
use crate::config::Loaded;
use crate::config::blocks::reward::{CompareWith, WatchAction, WatchSettings};
use crate::failure::Failure;
use crate::run::Run;

/// Earlier looks that the time of success is compared with.
const REMEMBERED: usize = 3;
/// The threshold of a judge that nobody told one.
const EVEN_ODDS: f32 = 0.5;

/// Somebody who looks at what a policy is paid for.
pub struct Watcher {
    settings: WatchSettings,
    watched: Arc<Adjustable>,
    truth: Truth,
    tally: Arc<Mutex<Tally>>,
    /// When success first came, in the mean, at the last looks.
    before: Vec<f64>,
    folder: PathBuf,
}

/// What to do after a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Go on.
    GoOn,
    /// Save and stop.
    Pause,
}

/// Who knows better than the model.
enum Truth {
    Environment,
    Model(Arc<Seat>),
    /// Who sorts frames; the folders of frames that were heard about.
    Person(Vec<PathBuf>),
    Nobody,
}

impl Watcher {
    /// For a run whose config asks for it.
    pub fn start(loaded: &Loaded, watched: Watched, run: &Run) -> Self {
        let settings = loaded.config.reward.watch.clone();
        let seed = Seed::new(loaded.config.env.train.seed);
        let tally = Arc::new(Mutex::new(Tally::new(settings.frames as usize, seed)));
        let folder = run.path().join("watch");
        let truth = match (settings.compare_with, watched.second) {
            (CompareWith::Environment, _) => Truth::Environment,
            (CompareWith::Model, Some(second)) => Truth::Model(second),
            // Whoever sorted frames while the run paused knows about them.
            (CompareWith::Person, _) => Truth::Person(sorted(&folder).map(|(folder, _)| folder).collect()),
            (CompareWith::Nobody | CompareWith::Model, _) => Truth::Nobody,
        };
        Self { settings, watched: watched.term, truth, tally, before: Vec::new(), folder }
    }

    /// Who hears of every segment.
    pub fn on_paid(&self) -> OnPaid<'static> {
        let tally = self.tally.clone();
        Box::new(move |segment, column| {
            tally.lock().unwrap_or_else(PoisonError::into_inner).add(segment, column)
        })
    }

    /// Looks, if it is time to.
    pub fn look(&mut self, step: u64, run: &mut Run) -> Result<Next, Failure> {
        if !step.is_multiple_of(self.settings.every.max(1)) {
            return Ok(Next::GoOn);
        }
        let (episodes, frames) = self.tally.lock().unwrap_or_else(PoisonError::into_inner).take();
        let compared = self.compare(&episodes, &frames)?;
        let signals = Signals::of(&episodes, &self.looks(&frames)?, compared);
        let alarms = self.limits().alarms(&signals, &self.before);
        let mut values = signals.values();
        values.push(("watch/alarms".into(), alarms.len() as f64));
        run.emit(Event::Metrics { step, values });
        if let Some(first) = signals.first_success {
            self.before.push(first);
            let old = self.before.len().saturating_sub(REMEMBERED);
            self.before.drain(..old);
        }
        // A person needs frames to sort before anything can be said.
        let wants_frames = !alarms.is_empty() || matches!(self.truth, Truth::Person(_));
        let kept = if wants_frames { self.keep(step, &frames)? } else { String::new() };
        if alarms.is_empty() {
            return Ok(Next::GoOn);
        }
        let done = self.act();
        let text = format!("step {step}: the reward may be hacked: {}. {done}{kept}", in_words(&alarms));
        run.emit(Event::Notice { level: Level::Warning, text: text.trim_end().into() });
        Ok(if self.settings.action == WatchAction::Pause { Next::Pause } else { Next::GoOn })
    }

    /// What the reward calls solved, against whoever knows better; nothing where nobody does.
    fn compare(
        &mut self,
        episodes: &[EpisodeSeen],
        frames: &[Rewarded],
    ) -> Result<Option<Compared>, Failure> {
        match &mut self.truth {
            Truth::Nobody => Ok(None),
            Truth::Environment => Ok(Some(Compared::episodes(episodes))),
            Truth::Model(second) => {
                let seated = second.current();
                let threshold = seated.judge.threshold().unwrap_or(EVEN_ODDS);
                let scores = seated.judge.scores(&moments(frames)).map_err(failed)?;
                let right = scores.iter().filter(|score| score.get() > threshold).count();
                Ok(Some(Compared { called: frames.len(), right }))
            }
            Truth::Person(heard) => {
                let new = sorted(&self.folder).filter(|(folder, _)| !heard.contains(folder)).last();
                Ok(new.map(|(folder, compared)| {
                    heard.push(folder);
                    compared
                }))
            }
        }
    }

    /// How rewarded frames compare with successes that the model knows; nothing from a model that was not audited.
    fn looks(&self, frames: &[Rewarded]) -> Result<Vec<Look>, Failure> {
        let seated = self.watched.judge();
        if frames.is_empty() || seated.judge.reach() > 0 {
            return Ok(Vec::new());
        }
        Ok(seated.judge.look(&moments(frames)).map_err(failed)?.unwrap_or_default())
    }

    fn limits(&self) -> Limits {
        let settings = &self.settings;
        Limits {
            false_success: settings.false_success,
            concentration: settings.concentration,
            early_success: settings.early_success,
            dithering: settings.dithering,
            far_frames: settings.far_frames,
            disagreement: settings.disagreement,
        }
    }

    /// Makes the reward stricter, if that was asked for; says what was done.
    fn act(&self) -> String {
        match self.settings.action {
            WatchAction::Warn => String::new(),
            WatchAction::Pause => "The run is saved and stops. ".into(),
            WatchAction::Terminal => match self.watched.adjust(Adjustment::AtEnds) {
                true => "From now on only the ends of episodes are paid. ".into(),
                false => "Only the ends of episodes are paid as it is. ".into(),
            },
            WatchAction::RaiseThreshold => {
                let threshold = (1.0 + self.watched.threshold().unwrap_or(EVEN_ODDS)) / 2.0;
                match self.watched.adjust(Adjustment::Threshold(threshold)) {
                    true => format!("From now on scores must be above {threshold:.4}. "),
                    false => "The threshold cannot be raised further. ".into(),
                }
            }
        }
    }

    /// Rewarded frames as pictures, ready for `plaudit reward train --add`: sorted where the environment knows the truth.
    fn keep(&self, step: u64, frames: &[Rewarded]) -> Result<String, Failure> {
        let folder = self.folder.join(format!("step_{step}"));
        let cameras = self.watched.judge().judge.cameras().to_vec();
        let is_sorted = matches!(self.truth, Truth::Environment);
        for (number, frame) in frames.iter().enumerate() {
            let place = match (is_sorted, frame.truly) {
                (true, true) => "success",
                (true, false) => "failure",
                (false, _) => "unsorted",
            };
            for camera in &cameras {
                let Some((shape, pixels)) = frame.seen.row(0).image(camera) else { continue };
                let of = if cameras.len() > 1 { format!("@{camera}") } else { String::new() };
                let place = folder.join(place);
                make(&place)?;
                let path = place.join(format!("{step:06}_{number:03}{of}.png"));
                Png::of(shape, pixels).write(&path).map_err(|error| Failure::work(error, None))?;
            }
        }
        if frames.is_empty() {
            return Ok(String::new());
        }
        if !is_sorted {
            // Whoever sorts has somewhere to put them.
            make(&folder.join("success"))?;
            make(&folder.join("failure"))?;
        }
        let (count, folder) = (frames.len(), folder.display());
        let next = match is_sorted {
            true => "plaudit reward train --from MODEL --add",
            false => "sort them into success/ and failure/, then plaudit reward train --from MODEL --add",
        };
        Ok(format!("{count} rewarded frames are in {folder}; to learn from them: {next} {folder}"))
    }
}

fn make(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::work(format!("cannot make {}: {error}", folder.display()), None))
}

fn failed(error: JudgeError) -> Failure {
    Failure::work(error, None)
}

fn moments(frames: &[Rewarded]) -> Vec<Moment<'_>> {
    frames.iter().map(|frame| Moment::alone(frame.seen.row(0))).collect()
}

/// The folders of frames that a person has done with, oldest first, and what they say.
fn sorted(folder: &Path) -> impl Iterator<Item = (PathBuf, Compared)> {
    let step = |path: &PathBuf| path.file_name()?.to_str()?.strip_prefix("step_")?.parse::<u64>().ok();
    let mut steps: Vec<(u64, PathBuf)> =
        entries(folder).into_iter().filter_map(|path| Some((step(&path)?, path))).collect();
    steps.sort_unstable();
    steps.into_iter().filter_map(|(_, folder)| {
        let [left, right, wrong] =
            ["unsorted", "success", "failure"].map(|place| frames_in(&folder.join(place)));
        (left == 0 && right + wrong > 0).then_some((folder, Compared { called: right + wrong, right }))
    })
}

/// How many frames lie in a folder; one may be several pictures, `000040_001@CAMERA.png`.
fn frames_in(folder: &Path) -> usize {
    let name = |path: &PathBuf| Some(path.file_stem()?.to_str()?.split('@').next()?.to_string());
    let pictures =
        entries(folder).into_iter().filter(|path| path.extension().is_some_and(|end| end == "png"));
    pictures.filter_map(|path| name(&path)).collect::<BTreeSet<_>>().len()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect()
}

fn in_words(alarms: &[Alarm]) -> String {
    let words =
        |alarm: &Alarm| format!("{} is {:.2} (limit {:.2})", alarm.signal.name(), alarm.value, alarm.limit);
    alarms.iter().map(words).collect::<Vec<_>>().join(", ")
}
