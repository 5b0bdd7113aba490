//! A run on several machines, from its start to its end: dora starts a process that fails again; what dora does not bring
//! back is brought back here. That is a machine whose daemon died, which takes its processes along, and the coordinator.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use plaudit_cluster::dora::{self, NodeState};
use plaudit_cluster::machine::MachineError;
use plaudit_cluster::{Plan, Process};
use serde::Deserialize;

use super::drive::{CONNECTING, Driver};
use super::status;
use crate::failure::Failure;
use crate::signals::interrupted;

/// How often the machines are looked at. Not by asking the coordinator: it answers twenty questions a minute from one address.
const LOOK: Duration = Duration::from_secs(1);
/// How often the coordinator is asked, for what only it knows.
const ASK: Duration = Duration::from_secs(15);
/// A machine that has not answered for so long is gone.
const SILENCE: Duration = Duration::from_secs(20);
/// A process may be away so long, while dora starts it again.
const ABSENCE: Duration = Duration::from_secs(12);
/// Processes are asked to end, and after so many seconds made to.
const GRACE_SECS: u64 = 15;
/// Restarts without a step of learning in between, after which the run is given up.
const MOST_RECOVERIES: u32 = 4;
/// How long a run may take to end when its learner says that it is done.
const ENDING: Duration = Duration::from_secs(60);
/// The same where a person moved a robot: there is nothing to be saved.
const ENDING_TELEOP: Duration = Duration::from_secs(5);

/// How a run ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RunEnd {
    /// The learner is done.
    Done,
    /// The learner stopped for a reason, or nothing more could be done. It can go on.
    Stopped(String),
    /// The user stopped it.
    Interrupted,
}

/// What the learner writes at its end.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase", tag = "outcome")]
enum Outcome {
    Done,
    Stopped { reason: String },
}

/// What is wrong, if something is.
#[derive(Debug, PartialEq, Eq)]
enum Trouble {
    /// The coordinator does not run, or does not answer.
    Coordinator,
    /// Machines whose daemons are gone.
    Machines(Vec<String>),
    /// The processes do not run.
    Graph(String),
}

/// What was seen of the machines.
#[derive(Debug, Default)]
struct Seen {
    coordinator_is_gone: bool,
    /// Machines without a daemon, or that have been silent for too long.
    missing: Vec<String>,
    /// Processes of the plan that run; not known while a machine is silent.
    running: Option<usize>,
}

/// Who is told what happens.
pub(crate) trait RunView {
    /// Something that deserves a line.
    fn notice(&mut self, text: &str);
    /// How everybody is doing, every second.
    fn look(&mut self, plan: &Plan, nodes: &[NodeState]);
}

/// A run that is watched.
pub(crate) struct Supervisor<'a> {
    driver: &'a Driver,
    /// Daemons are started by somebody else, who also starts them again.
    joined: bool,
    recoveries: u32,
    progress: Option<String>,
    absent_since: Option<Instant>,
    ending_since: Option<Instant>,
    /// Since when machines give no answer, by rank.
    silent_since: BTreeMap<usize, Instant>,
    /// What the coordinator last said, and when.
    asked: Option<(Instant, Vec<NodeState>)>,
    /// Since when bringing things back does not work.
    failing_since: Option<Instant>,
}

impl<'a> Supervisor<'a> {
    pub(crate) fn new(driver: &'a Driver, joined: bool) -> Self {
        Self {
            driver,
            joined,
            recoveries: 0,
            progress: None,
            absent_since: None,
            ending_since: None,
            silent_since: BTreeMap::new(),
            asked: None,
            failing_since: None,
        }
    }

    /// Runs the plan to its end.
    pub(crate) fn run(mut self, view: &mut dyn RunView) -> Result<RunEnd, Failure> {
        // What an earlier run said at its end is not this one's word, nor is that it was taken down.
        self.driver.mark_taken_down(false);
        for process in &self.driver.plan.processes {
            let _ = std::fs::remove_file(self.driver.plan.outcome(process));
        }
        // Whoever watched this run before may have been killed, and its processes go on.
        self.stop_graph();
        self.start_graph()?;
        loop {
            if interrupted() {
                view.notice("stopping: processes save what they have");
                self.stop_graph();
                return Ok(RunEnd::Interrupted);
            }
            if self.driver.was_taken_down() {
                return Ok(RunEnd::Stopped("it was taken down".into()));
            }
            let seen = self.look();
            let nodes = self.nodes();
            view.look(&self.driver.plan, &nodes);
            if let Some(end) = self.ended(&seen) {
                self.stop_graph();
                return Ok(end);
            }
            if self.ending_since.is_none()
                && let Some(trouble) = self.trouble(seen)
                && let Some(end) = self.recover(trouble, view)
            {
                return Ok(end);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// The run's end, when who leads it has said so and the others have had time to follow; or when a process cannot do its
    /// part, whoever starts it.
    fn ended(&mut self, seen: &Seen) -> Option<RunEnd> {
        let plan = &self.driver.plan;
        let leader = plan.leader();
        if let Some(said) = leader.and_then(|leader| self.outcome_of(leader)) {
            let since = *self.ending_since.get_or_insert_with(Instant::now);
            let patience = if plan.learns() { ENDING } else { ENDING_TELEOP };
            let is_over = seen.running == Some(0) || since.elapsed() >= patience;
            return is_over.then_some(said);
        }
        plan.processes.iter().find_map(|process| match self.outcome_of(process)? {
            RunEnd::Stopped(reason) => Some(RunEnd::Stopped(format!("{}: {reason}", process.id))),
            _ => None,
        })
    }

    fn outcome_of(&self, process: &Process) -> Option<RunEnd> {
        let path = self.driver.plan.outcome(process);
        let text = std::fs::read_to_string(&path).ok()?;
        Some(match serde_json::from_str(&text) {
            Ok(Outcome::Done) => RunEnd::Done,
            Ok(Outcome::Stopped { reason }) => RunEnd::Stopped(reason),
            Err(error) => RunEnd::Stopped(format!("{}: {error}", path.display())),
        })
    }

    /// What the coordinator knows of the processes, asked now and then.
    fn nodes(&mut self) -> Vec<NodeState> {
        let is_old = self.asked.as_ref().is_none_or(|(when, _)| when.elapsed() > ASK);
        if is_old {
            let list = self.driver.ask(&dora::list_nodes(&self.driver.plan), 10);
            self.asked = Some((Instant::now(), list.map(|list| dora::nodes(&list)).unwrap_or_default()));
        }
        self.asked.as_ref().map(|(_, nodes)| nodes.clone()).unwrap_or_default()
    }

    fn look(&mut self) -> Seen {
        if self.joined { self.look_from_afar() } else { self.look_at_machines() }
    }

    /// Every machine says what runs on it.
    fn look_at_machines(&mut self) -> Seen {
        let mut seen = Seen { running: Some(0), ..Seen::default() };
        let head = self.driver.plan.head().rank;
        for (machine, check) in self.driver.plan.machines.iter().zip(self.driver.check()) {
            let Ok(check) = check else {
                let since = *self.silent_since.entry(machine.rank).or_insert_with(Instant::now);
                if since.elapsed() > SILENCE {
                    seen.missing.push(machine.id.clone());
                }
                seen.running = None;
                continue;
            };
            self.silent_since.remove(&machine.rank);
            seen.coordinator_is_gone |= machine.rank == head && check.coordinator.is_none();
            if check.daemon.is_none() {
                seen.missing.push(machine.id.clone());
            }
            seen.running = seen.running.map(|running| running + check.workers);
        }
        seen
    }

    /// Where machines belong to a scheduler, only the coordinator can be asked.
    fn look_from_afar(&mut self) -> Seen {
        let is_old = self.asked.as_ref().is_none_or(|(when, _)| when.elapsed() > ASK);
        if !is_old {
            return Seen::default();
        }
        match self.driver.missing_machines(SILENCE) {
            Ok(missing) => {
                let missing = missing.iter().map(|machine| machine.id.clone()).collect();
                let running = self.nodes().iter().filter(|node| node.status == "Running").count();
                Seen { missing, running: Some(running), ..Seen::default() }
            }
            Err(_) => {
                self.asked = Some((Instant::now(), Vec::new()));
                Seen { coordinator_is_gone: true, ..Seen::default() }
            }
        }
    }

    fn trouble(&mut self, seen: Seen) -> Option<Trouble> {
        if seen.coordinator_is_gone {
            return Some(Trouble::Coordinator);
        }
        if !seen.missing.is_empty() {
            return Some(Trouble::Machines(seen.missing));
        }
        let (running, all) = (seen.running?, self.driver.plan.processes.len());
        if running >= all {
            self.absent_since = None;
            return None;
        }
        let since = *self.absent_since.get_or_insert_with(Instant::now);
        // No process at all is a graph that has ended; dora starts a single one again by itself.
        let patience = if running == 0 { 3 * LOOK } else { ABSENCE };
        (since.elapsed() > patience).then(|| Trouble::Graph(format!("{} of {all} processes", all - running)))
    }

    /// Brings back what is gone. Says how the run ends where that does not help.
    fn recover(&mut self, trouble: Trouble, view: &mut dyn RunView) -> Option<RunEnd> {
        let progress = self.learned();
        if progress != self.progress {
            (self.progress, self.recoveries) = (progress, 0);
        }
        let what = match &trouble {
            Trouble::Coordinator => "the coordinator is gone".to_string(),
            Trouble::Machines(machines) => format!("the daemon of {} is gone", machines.join(", ")),
            Trouble::Graph(processes) => format!("{processes} no longer run"),
        };
        if !self.driver.plan.learns() {
            // No robot moves because something failed: a person starts it again.
            self.stop_graph();
            return Some(RunEnd::Stopped(format!("{what}, and the arm holds")));
        }
        if self.recoveries >= MOST_RECOVERIES {
            let reason = format!("{what}, and {MOST_RECOVERIES} restarts in a row did not help");
            return Some(RunEnd::Stopped(reason));
        }
        if self.failing_since.is_none() {
            view.notice(&format!("{what}: starting again from what was saved"));
        }
        let began = Instant::now();
        match self.bring_back(&trouble) {
            Ok(()) => {
                view.notice(&format!("running again after {:.1} s", began.elapsed().as_secs_f64()));
                self.recoveries += 1;
                (self.failing_since, self.asked) = (None, None);
                self.silent_since.clear();
            }
            Err(failure) => {
                let since = *self.failing_since.get_or_insert(began);
                let give_up_secs = self.driver.plan.link.give_up_secs;
                if since.elapsed().as_secs_f64() > give_up_secs {
                    return Some(RunEnd::Stopped(format!(
                        "{what}, and {give_up_secs} s did not bring it back: {failure}"
                    )));
                }
                view.notice(&format!("not yet: {failure}"));
            }
        }
        self.absent_since = None;
        None
    }

    fn bring_back(&self, trouble: &Trouble) -> Result<(), Failure> {
        match trouble {
            // Whoever joined starts its own programs again; they are only waited for.
            _ if self.joined => self.driver.wait_until_connected(CONNECTING)?,
            Trouble::Coordinator => {
                // A new coordinator has a new token, which a daemon that runs does not learn any more.
                let (_, failed) = self.driver.down();
                if let Some(error) = failed.first() {
                    return Err(Failure::runtime(error, None));
                }
                self.driver.up()?;
            }
            Trouble::Machines(_) => self.driver.up()?,
            Trouble::Graph(_) => {}
        }
        self.stop_graph();
        self.start_graph()
    }

    /// What the learner last wrote about its own steps.
    fn learned(&self) -> Option<String> {
        let leader = self.driver.plan.leader()?;
        let last = status::last_line(&self.driver.plan, leader)?;
        Some(format!("{:?}", last.get("version")))
    }

    fn start_graph(&self) -> Result<(), Failure> {
        let plan = &self.driver.plan;
        self.driver.ask(&dora::start(plan), 60).map(drop).map_err(|error| dora_failure(&error))
    }

    /// Ends the processes. That none runs is fine.
    fn stop_graph(&self) {
        let _ = self.driver.ask(&dora::stop(&self.driver.plan, GRACE_SECS), 2 * GRACE_SECS + 10);
    }
}

fn dora_failure(error: &MachineError) -> Failure {
    Failure::runtime(format!("dora could not start the processes: {error}"), None)
}
