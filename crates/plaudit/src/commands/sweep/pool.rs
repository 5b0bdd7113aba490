//! The runs of a sweep, as many side by side as fit, until all are done or a person stops them.

use std::collections::VecDeque;
use std::io::{Stderr, stderr};
use std::time::{Duration, Instant};

use plaudit_nn::gpu;
use plaudit_view::{Board, BoardState, Size};

use super::child::{Found, RunningChild, Share, find};
use super::memory::{Memory, used_by};
use super::plan::Plan;
use crate::build;
use crate::cli::Verbosity;
use crate::config::LoadedConfig;
use crate::console;
use crate::failure::Failure;
use crate::run::interrupted;

/// How often runs are looked after.
const TICK: Duration = Duration::from_millis(100);
/// How often memory is measured.
const MEASURE: Duration = Duration::from_secs(1);
/// Output that is no terminal gets a line this often.
const LINE: Duration = Duration::from_secs(30);

/// How the work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// Every run was tried.
    AllTried,
    /// A person stopped it.
    Interrupted,
}

/// The runs at work.
pub(super) struct Pool<'a> {
    plan: &'a Plan,
    /// Runs that wait, by their places in the plan.
    waiting: VecDeque<usize>,
    running: Vec<RunningChild>,
    /// Runs that failed: name and why.
    failures: Vec<(String, String)>,
    done: usize,
    /// Runs that were done before.
    done_before: usize,
    most: usize,
    gpus: Vec<String>,
    /// Bytes that a run needs, once that is known.
    needed: Option<u64>,
    view: Option<View>,
    began: Instant,
    measured: Instant,
    was_asked_to_stop: bool,
    note: Option<String>,
}

enum View {
    Board(Board<Stderr>),
    Lines(Instant),
}

impl<'a> Pool<'a> {
    /// Looks for what is done already; nothing runs yet.
    pub(super) fn new(plan: &'a Plan, jobs: Option<usize>, verbosity: Verbosity) -> Result<Self, Failure> {
        let mut waiting = VecDeque::new();
        for (place, run) in plan.runs.iter().enumerate() {
            if find(plan, run)? != Found::Finished {
                waiting.push_back(place);
            }
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let gpus = match plan.runs.iter().any(|run| may_use_gpu(&run.config)) {
            true => visible_gpus(),
            false => Vec::new(),
        };
        let default = if gpus.is_empty() { cores } else { gpus.len() };
        let done = plan.runs.len() - waiting.len();
        let view = match console::shows_status() {
            true => View::Board(Board::new(stderr(), console::use_colour())),
            false => View::Lines(Instant::now()),
        };
        let now = Instant::now();
        Ok(Self {
            plan,
            most: jobs.unwrap_or(default).min(waiting.len()).max(1),
            waiting,
            running: Vec::new(),
            failures: Vec::new(),
            done,
            done_before: done,
            gpus,
            needed: plan.run_bytes,
            view: (!verbosity.quiet).then_some(view),
            began: now,
            measured: now,
            was_asked_to_stop: false,
            note: None,
        })
    }

    /// Until every run was tried, or Ctrl-C.
    pub(super) fn work(&mut self) -> Result<Stop, Failure> {
        if self.done_before > 0 {
            self.say(&[format!("{} of {} runs were done before", self.done_before, self.plan.runs.len())]);
        }
        let worked = self.until_done();
        if worked.is_err() {
            // Whatever went wrong here, no run is left behind.
            self.running.iter().for_each(RunningChild::ask_to_stop);
            while !self.running.is_empty() && self.collect().is_ok() {
                std::thread::sleep(TICK);
            }
        }
        worked
    }

    fn until_done(&mut self) -> Result<Stop, Failure> {
        loop {
            self.collect()?;
            if interrupted() && !std::mem::replace(&mut self.was_asked_to_stop, true) {
                self.running.iter().for_each(RunningChild::ask_to_stop);
                self.note = Some("finishing these steps, then saving (Ctrl-C again stops at once)".into());
            }
            if !self.was_asked_to_stop {
                self.measure()?;
                self.fill()?;
            }
            if self.running.is_empty() {
                self.show(true);
                let is_left = self.was_asked_to_stop && !self.waiting.is_empty();
                return Ok(if is_left { Stop::Interrupted } else { Stop::AllTried });
            }
            self.show(false);
            std::thread::sleep(TICK);
        }
    }

    /// What failed: name and why.
    pub(super) fn into_failures(self) -> Vec<(String, String)> {
        self.failures
    }

    /// Takes in what runs have logged, and those that have ended.
    fn collect(&mut self) -> Result<(), Failure> {
        let mut news = Vec::new();
        let mut at = 0;
        while at < self.running.len() {
            let child = &mut self.running[at];
            let ended = child.ended()?;
            child.follow();
            let Some(status) = ended else {
                at += 1;
                continue;
            };
            let child = self.running.remove(at);
            let run = &self.plan.runs[child.place];
            if status.success() {
                self.done += 1;
                news.push(format!("done: {}", child.progress.line()));
            } else if self.was_asked_to_stop || interrupted() {
                self.waiting.push_front(child.place);
                news.push(format!("stopped: {}", child.progress.line()));
            } else {
                let why = child.last_words();
                news.push(format!("failed: {} ({status}): {why}", run.name));
                self.failures.push((run.name.clone(), why));
            }
        }
        if !news.is_empty() {
            self.say(&news);
        }
        Ok(())
    }

    /// What the largest run has needed so far. It is known once one has learned a step.
    fn measure(&mut self) -> Result<(), Failure> {
        if self.measured.elapsed() < MEASURE || self.running.is_empty() {
            return Ok(());
        }
        self.measured = Instant::now();
        let ids: Vec<u32> = self.running.iter().map(RunningChild::id).collect();
        let learned = self.running.iter().zip(used_by(&ids)).filter(|(child, _)| child.has_learned);
        let largest = learned.map(|(_, used)| used).max().filter(|used| *used > 0);
        if largest > self.needed
            && let Some(largest) = largest
        {
            self.needed = Some(largest);
            self.plan.keep_run_bytes(largest)?;
        }
        Ok(())
    }

    /// Starts runs while there is room.
    fn fill(&mut self) -> Result<(), Failure> {
        self.note = None;
        while self.running.len() < self.most && !self.waiting.is_empty() {
            if let Some(why) = self.no_room() {
                self.note = Some(why);
                return Ok(());
            }
            let Some(place) = self.waiting.pop_front() else { return Ok(()) };
            let free = (0..self.most).find(|slot| self.running.iter().all(|child| child.slot != *slot));
            let slot = free.unwrap_or(0);
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            let gpu = (!self.gpus.is_empty()).then(|| self.gpus[slot % self.gpus.len()].clone());
            let share = Share { slot, threads: (cores / self.most).max(1), gpu };
            let child = RunningChild::start(self.plan, place, &share)?;
            self.say(&[format!("started: {}", self.plan.runs[place].name)]);
            self.running.push(child);
        }
        Ok(())
    }

    /// Why no run may be started beside those that go on. One alone always may.
    fn no_room(&self) -> Option<String> {
        if self.running.is_empty() {
            return None;
        }
        let memory = Memory::now()?;
        let Some(needed) = self.needed else {
            let is_known = self.running.iter().any(|child| child.has_learned) || self.done > self.done_before;
            return (!is_known).then(|| "the first run shows how much memory one needs".into());
        };
        let ids: Vec<u32> = self.running.iter().map(RunningChild::id).collect();
        let is_full = !memory.has_room(&used_by(&ids), needed);
        is_full.then(|| {
            let (needed, left) =
                (plaudit_view::format::bytes(needed), plaudit_view::format::bytes(memory.available));
            format!("memory: a run needs {needed}, {left} are left")
        })
    }

    /// Lines that stay.
    fn say(&mut self, news: &[String]) {
        let state = self.state();
        match &mut self.view {
            // What cannot be shown stops no run.
            Some(View::Board(board)) => drop(board.draw(&state, news, Size::now())),
            Some(View::Lines(_)) => news.iter().for_each(|line| console::eprintln(line)),
            None => {}
        }
    }

    fn show(&mut self, is_last: bool) {
        let state = self.state();
        match &mut self.view {
            Some(View::Board(board)) => drop(board.draw(&state, &[], Size::now())),
            Some(View::Lines(last)) if is_last || last.elapsed() > LINE => {
                *last = Instant::now();
                console::eprintln(&state.line());
            }
            _ => {}
        }
    }

    fn state(&self) -> BoardState {
        BoardState {
            title: self.plan.title.clone(),
            done: self.done,
            failed: self.failures.len(),
            total: self.plan.runs.len(),
            running: self.running.iter().map(|child| child.progress.clone()).collect(),
            elapsed: self.began.elapsed(),
            left: self.time_left(),
            note: self.note.clone(),
        }
    }

    /// As long as the runs that are left take at the pace so far.
    fn time_left(&self) -> Option<Duration> {
        let under_way: f64 = self.running.iter().filter_map(|child| child.progress.share()).sum();
        let done = (self.done - self.done_before + self.failures.len()) as f64 + under_way;
        let left = self.waiting.len() as f64 + self.running.len() as f64 - under_way;
        let elapsed = self.began.elapsed().as_secs_f64();
        (done > 0.05 && left > 0.0).then(|| Duration::try_from_secs_f64(elapsed * left / done).ok())?
    }
}

/// Whether a run of this config would take a GPU, where there is one.
fn may_use_gpu(loaded: &LoadedConfig) -> bool {
    let config = &loaded.config;
    let wants = |device: &str| device != "cpu";
    let scores = config.reward.use_reward_model && wants(&config.reward.model.device);
    scores || (build::policy_uses_images(loaded) && wants(&config.actor.model.device))
}

/// The GPUs that runs may see, by CUDA's names of them.
fn visible_gpus() -> Vec<String> {
    let chosen = std::env::var("CUDA_VISIBLE_DEVICES").unwrap_or_default();
    let chosen: Vec<String> =
        chosen.split(',').map(str::trim).filter(|name| !name.is_empty()).map(String::from).collect();
    match gpu::count() {
        Ok(count) if count == chosen.len() => chosen,
        Ok(count) => (0..count).map(|index| index.to_string()).collect(),
        Err(_) => Vec::new(),
    }
}
