//! What a person sees while the arm moves.

use std::fs::File;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plaudit_core::Step;
use plaudit_reward::LiveRule;

use super::summary::EpisodeReport;
use crate::console;
use crate::failure::Failure;
use crate::robot::ScoredFrame;

/// How often the line changes; without a terminal, how often a line is printed.
const LINE_EVERY: Duration = Duration::from_millis(100);
const PLAIN_EVERY: Duration = Duration::from_secs(1);
/// A score that is older than this is none.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(1);
/// Letters of the bar.
const BAR: usize = 10;
/// How much of a rate the newest pause makes.
const NEWEST: f64 = 0.2;

/// One writer at a time: the line, and what other threads have to say.
static SCREEN: Mutex<()> = Mutex::new(());

/// A rate from pauses between events.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rate {
    last: Option<Instant>,
    secs: Option<f64>,
}

impl Rate {
    pub(super) fn event(&mut self, now: Instant) {
        if let Some(last) = self.last.replace(now) {
            let secs = now.saturating_duration_since(last).as_secs_f64();
            self.secs = Some(self.secs.map_or(secs, |before| before + NEWEST * (secs - before)));
        }
    }

    pub(super) fn hz(&self) -> f64 {
        self.secs.map_or(0.0, |secs| 1.0 / secs.max(1e-6))
    }
}

/// What is known while an episode runs.
#[derive(Debug, Clone)]
pub(super) struct LiveState {
    has_model: bool,
    episode: u64,
    steps: u64,
    /// The newest probability.
    pub(super) score: Option<f32>,
    /// When the frame was taken that it is of.
    taken: Option<Instant>,
    level: f32,
    /// Frames in a row that count, and how many it takes.
    pub(super) streak: usize,
    pub(super) hold: usize,
    /// Whether the newest score is a success.
    pub(super) is_success: bool,
    /// Whether the tool is at its target.
    pub(super) at_target: bool,
    /// How old the newest frame is.
    pub(super) frame_age: Duration,
    loop_rate: Rate,
    model_rate: Rate,
}

impl LiveState {
    pub(super) fn new(episode: u64, has_model: bool) -> Self {
        Self {
            has_model,
            episode,
            steps: 0,
            score: None,
            taken: None,
            level: 0.0,
            streak: 0,
            hold: 0,
            is_success: false,
            at_target: false,
            frame_age: Duration::ZERO,
            loop_rate: Rate::default(),
            model_rate: Rate::default(),
        }
    }

    pub(super) fn step(&mut self, step: &Step) {
        self.steps += 1;
        self.at_target = step.success[0];
        self.frame_age = Duration::from_secs_f32(fact(step, "frame_age").max(0.0));
        self.loop_rate.event(Instant::now());
    }

    pub(super) fn scored(&mut self, frame: &ScoredFrame, rule: &LiveRule, is_success: bool) {
        (self.score, self.taken, self.level) = (Some(frame.score.get()), Some(frame.taken), rule.level());
        (self.streak, self.hold, self.is_success) = (rule.streak(), rule.hold(), is_success);
        self.model_rate.event(Instant::now());
    }

    /// The newest score, while it is new: probability and the age of its frame.
    fn fresh(&self) -> Option<(f32, Duration)> {
        let age = self.taken?.elapsed();
        self.score.filter(|_| age < FORGOTTEN_AFTER + self.frame_age).map(|score| (score, age))
    }

    fn frame(&self) -> String {
        format!("frame {} ms", self.frame_age.as_millis())
    }

    fn line(&self, elapsed: Duration) -> String {
        let bar = |score: f32| {
            let full = (score * BAR as f32).round() as usize;
            format!("[{}{}]", "#".repeat(full.min(BAR)), "-".repeat(BAR - full.min(BAR)))
        };
        let score = match (self.fresh(), self.taken) {
            (Some((score, age)), _) => {
                let sign = if score > self.level { '>' } else { '≤' };
                format!(
                    "p {score:.3} {sign} {:.3} {} {}/{}  frame {} ms  model {:.0} Hz",
                    self.level,
                    bar(score),
                    self.streak,
                    self.hold,
                    age.as_millis(),
                    self.model_rate.hz()
                )
            }
            (None, Some(taken)) => format!("no score for {:.0} s", taken.elapsed().as_secs_f64()),
            (None, None) if self.has_model => format!("no score yet  {}", self.frame()),
            (None, None) => self.frame(),
        };
        let loop_hz = self.loop_rate.hz();
        format!("{score}  loop {loop_hz:.1} Hz  episode {}  {:.0} s", self.episode + 1, elapsed.as_secs_f64())
    }

    fn plain(&self) -> String {
        let score = match self.fresh() {
            Some((score, age)) => {
                let success = if self.is_success { "yes" } else { "no" };
                format!(
                    "p {score:.3}  threshold {:.3}  held {}/{}  frame {} ms  model {:.1} Hz  success {success}",
                    self.level,
                    self.streak,
                    self.hold,
                    age.as_millis(),
                    self.model_rate.hz()
                )
            }
            None if self.has_model => format!("no score  {}", self.frame()),
            None => self.frame(),
        };
        format!("step {:<5} {score}  loop {:.1} Hz\n", self.steps, self.loop_rate.hz())
    }
}

/// A fact of a step; 0 if it has none of that name.
pub(super) fn fact(step: &Step, name: &str) -> f32 {
    let found = step.facts.iter().find(|(known, _)| &**known == name);
    found.and_then(|(_, values)| values.first()).copied().unwrap_or(0.0)
}

/// What lines are written to.
#[derive(Clone)]
enum Screen {
    /// One line that changes.
    Terminal,
    /// A line every second.
    Pipe,
    /// A line for every step, for whoever reads them elsewhere.
    File(Arc<File>),
}

/// Where all that is written.
pub struct Display {
    is_quiet: bool,
    screen: Screen,
    shown: Option<Instant>,
}

impl Display {
    pub(super) fn new(is_quiet: bool) -> Self {
        let screen = if console::shows_status() { Screen::Terminal } else { Screen::Pipe };
        Self { is_quiet, screen, shown: None }
    }

    /// Every line goes to this file.
    pub fn to_file(file: File) -> Self {
        Self { is_quiet: false, screen: Screen::File(Arc::new(file)), shown: None }
    }

    /// Says why the arm holds, from any thread.
    pub(super) fn notifier(&self) -> Box<dyn Fn(&str) + Send> {
        let screen = self.screen.clone();
        Box::new(move |text| say(&screen, text))
    }

    /// Says in the line what takes a while.
    pub(super) fn waits(&self, what: &str) {
        let _one = SCREEN.lock();
        match &self.screen {
            Screen::Terminal if !self.is_quiet => console::status(what),
            Screen::File(file) => append(file, &format!("{what}\n")),
            Screen::Terminal | Screen::Pipe => {}
        }
    }

    pub(crate) fn notice(&self, text: &str) {
        say(&self.screen, text);
    }

    /// The line, or without a terminal every second a line of its own.
    pub(super) fn show(&mut self, live: &LiveState, elapsed: Duration) {
        let every = match &self.screen {
            Screen::Terminal => LINE_EVERY,
            Screen::Pipe => PLAIN_EVERY,
            Screen::File(_) => Duration::ZERO,
        };
        if self.is_quiet || self.shown.is_some_and(|shown| shown.elapsed() < every) {
            return;
        }
        self.shown = Some(Instant::now());
        let _one = SCREEN.lock();
        match &self.screen {
            Screen::Terminal => console::status(&live.line(elapsed)),
            // A reader that went away must not stop the arm.
            Screen::Pipe => drop(console::print(&live.plain())),
            Screen::File(file) => append(file, &live.plain()),
        }
    }

    pub(super) fn episode(&self, number: u64, report: &EpisodeReport, hold: usize) -> Result<(), Failure> {
        if self.is_quiet {
            return Ok(());
        }
        let _one = SCREEN.lock();
        let line = format!("episode {}: {}\n", number + 1, report.sentence(hold));
        match &self.screen {
            Screen::Terminal => {
                console::status("");
                console::print(&line)
            }
            Screen::Pipe => console::print(&line),
            Screen::File(file) => {
                append(file, &line);
                Ok(())
            }
        }
    }

    /// Leaves the line.
    pub(super) fn end(&self) {
        if matches!(self.screen, Screen::Terminal) && !self.is_quiet {
            console::status("");
        }
    }
}

fn say(screen: &Screen, text: &str) {
    let _one = SCREEN.lock();
    match screen {
        Screen::Terminal => {
            console::status("");
            console::eprintln(text);
        }
        Screen::Pipe => console::eprintln(text),
        Screen::File(file) => append(file, &format!("{text}\n")),
    }
}

/// A full disk must not stop the arm.
fn append(mut file: &File, line: &str) {
    let _ = file.write_all(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(score: f32, age: Duration) -> LiveState {
        let taken = Instant::now().checked_sub(age);
        LiveState { score: Some(score), taken, level: 0.2, streak: 3, hold: 5, ..LiveState::new(1, true) }
    }

    #[test]
    fn the_line_has_probability_threshold_age_and_rates() {
        let line = live(0.831, Duration::from_millis(58)).line(Duration::from_secs(12));
        assert!(line.starts_with("p 0.831 > 0.200 [########--] 3/5  frame 5"), "{line}");
        assert!(line.ends_with("loop 0.0 Hz  episode 2  12 s"), "{line}");
        let below = live(0.2, Duration::ZERO).line(Duration::ZERO);
        assert!(below.starts_with("p 0.200 ≤ 0.200 [##--------]"), "{below}");
        let plain = live(0.2, Duration::ZERO).plain();
        assert!(plain.contains("p 0.200  threshold 0.200  held 3/5  frame 0 ms"), "{plain}");
    }

    #[test]
    fn an_old_score_is_none() {
        let stale = live(0.9, Duration::from_secs(3));
        assert!(stale.line(Duration::ZERO).starts_with("no score for 3 s"));
        assert!(stale.plain().contains("no score"));
        assert!(LiveState::new(0, true).line(Duration::ZERO).starts_with("no score yet"));
        assert!(
            LiveState::new(0, false).line(Duration::ZERO).starts_with("frame 0 ms  loop"),
            "without a model"
        );
    }

    #[test]
    fn a_rate_follows_its_events() {
        let (mut rate, begun) = (Rate::default(), Instant::now());
        for number in 0..100 {
            rate.event(begun + Duration::from_millis(50 * number));
        }
        assert!((rate.hz() - 20.0).abs() < 1e-6, "{}", rate.hz());
    }
}
