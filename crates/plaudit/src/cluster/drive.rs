//! The machines of a plan, driven from one of them: looked at, brought up, checked, taken down.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use plaudit_cluster::dora::{self, files};
use plaudit_cluster::machine::{
    Check, Ended, Errand, MachineError, Probe, StartRequest, Started, ask_dora, errand,
};
use plaudit_cluster::{Component, Machine, Plan};
use serde::de::DeserializeOwned;

use super::VERSION;
use crate::config::{LoadedConfig, yaml};
use crate::failure::Failure;

/// How long a machine may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long daemons may take to find their coordinator.
pub(crate) const CONNECTING: Duration = Duration::from_secs(30);
/// How long the end of everything on a machine may take.
const ENDING: Duration = Duration::from_secs(60);

/// A file that tells whoever watches a run that it was taken down, and is not to be brought back.
const TAKEN_DOWN: &str = ".taken-down";

/// A plan and its machines.
pub(crate) struct Driver {
    /// The plan.
    pub(crate) plan: Plan,
    loaded: LoadedConfig,
}

impl Driver {
    pub(crate) fn new(plan: Plan, loaded: LoadedConfig) -> Self {
        Self { plan, loaded }
    }

    /// The folder of dora's files, here.
    pub(crate) fn folder(&self) -> PathBuf {
        self.plan.run_dir.join(files::FOLDER)
    }

    fn words(&self, machine: &Machine, what: &str) -> Vec<String> {
        let plan = self.plan.run_dir.join(Plan::FILE).display().to_string();
        let words = ["cluster", "node", what, "--plan", &plan, "--rank", &machine.rank.to_string()];
        words.map(String::from).into()
    }

    /// The same on all machines at once; what came of it, by rank.
    fn on_all<T: Send>(&self, work: impl Fn(&Machine) -> T + Sync) -> Vec<T> {
        std::thread::scope(|scope| {
            let work = &work;
            let started: Vec<_> =
                self.plan.machines.iter().map(|machine| scope.spawn(move || work(machine))).collect();
            // A thread that panics is a bug, and goes on as one.
            started
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        })
    }

    fn do_on<T: DeserializeOwned>(
        &self,
        machine: &Machine,
        what: &str,
        input: Vec<u8>,
    ) -> Result<T, MachineError> {
        errand(machine, &Errand { words: self.words(machine, what), input, patience: PATIENCE })
    }

    /// Looks at every machine, and refuses those that the plan cannot run on.
    pub(crate) fn probe(&self) -> Result<(), Failure> {
        let probes = self.on_all(|machine| {
            let mut words: Vec<String> = ["cluster", "node", "probe", "--dora"].map(String::from).into();
            words.push(machine.dora.display().to_string());
            errand::<Probe>(machine, &Errand { words, input: Vec::new(), patience: PATIENCE })
        });
        for (machine, probe) in self.plan.machines.iter().zip(probes) {
            let probe = probe.map_err(|error| self.unreachable(machine, &error))?;
            self.refuse(machine, &probe)?;
        }
        Ok(())
    }

    fn refuse(&self, machine: &Machine, probe: &Probe) -> Result<(), Failure> {
        let name = format!("{} ({})", machine.id, machine.host);
        let wrong = |key: &str, message: String, hint: String| -> Result<(), Failure> {
            let key = if key.is_empty() { String::new() } else { format!(".{key}") };
            Err(self.loaded.problem(&format!("cluster.nodes.{}{key}", machine.rank), message, hint).into())
        };
        if probe.plaudit != VERSION {
            let message = format!("{name} has plaudit {}, and this is {VERSION}", probe.plaudit);
            return wrong("plaudit", message, "install the same version on every machine".into());
        }
        let install = format!(
            "pip install dora-rs-cli=={}, and name its path with cluster.nodes[].dora",
            dora::VERSION
        );
        match &probe.dora {
            Err(why) => return wrong("dora", format!("{name} has no dora: {why}"), install),
            Ok(version) if version != dora::VERSION => {
                let message = format!("{name} has dora {version}, and this needs {}", dora::VERSION);
                return wrong("dora", message, install);
            }
            Ok(_) => {}
        }
        if !probe.has_dora_links {
            let message = format!("{name} has a plaudit that was built without the feature `cluster`");
            return wrong(
                "plaudit",
                message,
                "build it with cargo build --release --features cluster".into(),
            );
        }
        if probe.gpus < machine.gpus {
            let message = format!("{name} is said to have {} GPUs, and has {}", machine.gpus, probe.gpus);
            return wrong("gpus", message, "correct the number, and the placement with it".into());
        }
        let own = self.plan.processes.iter().filter(|process| process.machine == machine.rank);
        let needed: u64 = own.map(|process| process.pool_bytes).sum();
        if probe.shared_memory_bytes < needed {
            let (has, needed) = (probe.shared_memory_bytes >> 20, needed >> 20);
            let message = format!(
                "{name} has {has} MB of shared memory (/dev/shm), and its processes need {needed} MB"
            );
            let hint = format!(
                "make it larger (`mount -o remount,size={}m /dev/shm`), or cluster.link.window smaller",
                needed * 2
            );
            return wrong("", message, hint);
        }
        Ok(())
    }

    fn unreachable(&self, machine: &Machine, error: &MachineError) -> Failure {
        let hint = match (&machine.ssh, error) {
            (Some(target), MachineError::Refused { said, .. }) if !said.contains("plaudit") => {
                format!(
                    "try it by hand: ssh -oBatchMode=yes {target} {} --version",
                    machine.plaudit.display()
                )
            }
            _ => "every machine needs plaudit of the same version; cluster.nodes[].plaudit names its path"
                .into(),
        };
        self.loaded.problem(&format!("cluster.nodes.{}", machine.rank), error.to_string(), hint).into()
    }

    /// Starts what does not run: the coordinator, and a daemon on every machine. Says nothing of what runs already.
    pub(crate) fn up(&self) -> Result<(), Failure> {
        let head = self.plan.head();
        let started = self.start(head, None)?;
        let token = started.token.unwrap_or_default();
        // The command line here shows the same token, also where the coordinator is on another machine.
        if head.ssh.is_some() {
            self.write_here(head.rank, &token)?;
        }
        let others = self.on_all(|machine| {
            if machine.rank == head.rank {
                Ok(())
            } else {
                self.start(machine, Some(token.clone())).map(drop)
            }
        });
        others.into_iter().collect::<Result<(), Failure>>()?;
        // Daemons need a moment, and the first question should be the last.
        std::thread::sleep(Duration::from_millis(500));
        self.wait_until_connected(CONNECTING)
    }

    /// Starts one machine again: after its daemon died, or when there is a new token.
    pub(crate) fn start(&self, machine: &Machine, token: Option<String>) -> Result<Started, Failure> {
        let request = self.start_request(machine.rank, token);
        let input = serde_json::to_vec(&request).map_err(|error| Failure::runtime(error, None))?;
        self.do_on(machine, "start", input).map_err(|error| self.unreachable(machine, &error))
    }

    fn start_request(&self, rank: usize, token: Option<String>) -> StartRequest {
        let config = yaml::to_yaml(self.loaded.written_tree(), false);
        let mut files = BTreeMap::from([(self.plan.config.display().to_string(), config)]);
        let learner = self.plan.process(Component::Actor, 0).map(|process| process.machine);
        if learner == Some(rank) {
            // The learner opens the run directory, which is known by this file.
            files.insert("events.jsonl".into(), String::new());
        }
        StartRequest { plan: self.plan.clone(), rank, files, token }
    }

    fn write_here(&self, rank: usize, token: &str) -> Result<(), Failure> {
        let request = self.start_request(rank, Some(token.to_string()));
        plaudit_cluster::machine::write_files(&request).map_err(|error| Failure::runtime(error, None))
    }

    /// Writes the plan and dora's files here, and starts nothing.
    pub(crate) fn write_plan(&self) -> Result<(), Failure> {
        let request = self.start_request(self.plan.head().rank, None);
        plaudit_cluster::machine::write_files(&request).map_err(|error| Failure::runtime(error, None))
    }

    /// Waits for every daemon.
    pub(crate) fn wait_until_connected(&self, patience: Duration) -> Result<(), Failure> {
        let deadline = Instant::now() + patience;
        loop {
            let missing = self.missing_machines(Duration::MAX);
            match missing {
                Ok(missing) if missing.is_empty() => return Ok(()),
                Ok(missing) if Instant::now() > deadline => {
                    let ids: Vec<&str> = missing.iter().map(|machine| machine.id.as_str()).collect();
                    let message = format!("no word from {} within {} s", ids.join(", "), patience.as_secs());
                    let port = self.plan.coordinator_port;
                    let help = format!(
                        "can it reach {}:{port}? Its own words are in {}/daemon-*.log there",
                        self.plan.head().address,
                        self.folder().display()
                    );
                    return Err(Failure::runtime(message, help));
                }
                Err(error) if Instant::now() > deadline => return Err(Failure::runtime(error, None)),
                _ => std::thread::sleep(self.between_questions()),
            }
        }
    }

    /// A coordinator answers twenty questions a minute from one address; only from its own machine it answers all.
    pub(crate) fn between_questions(&self) -> Duration {
        let is_loopback = self.plan.head().address.is_loopback();
        if is_loopback { Duration::from_millis(200) } else { Duration::from_secs(3) }
    }

    /// Machines whose daemon the coordinator does not know, or has not heard of for so long.
    pub(crate) fn missing_machines(&self, silence: Duration) -> Result<Vec<&Machine>, MachineError> {
        let connected = dora::connected_machines(&self.ask(&dora::list_machines(&self.plan), 10)?);
        let is_there = |machine: &&Machine| {
            connected
                .iter()
                .any(|(id, heard_ms)| *id == machine.id && u128::from(*heard_ms) < silence.as_millis())
        };
        Ok(self.plan.machines.iter().filter(|machine| !is_there(machine)).collect())
    }

    /// Asks the coordinator something.
    pub(crate) fn ask(&self, words: &[String], seconds: u64) -> Result<String, MachineError> {
        let head = self.plan.head();
        let local = self.plan.machines.iter().find(|machine| machine.ssh.is_none()).unwrap_or(head);
        ask_dora(&local.dora, &self.folder(), words, Duration::from_secs(seconds))
    }

    /// What runs on every machine; a machine that cannot be reached says why.
    pub(crate) fn check(&self) -> Vec<Result<Check, MachineError>> {
        self.on_all(|machine| self.do_on(machine, "check", Vec::new()))
    }

    /// Refuses to run where a daemon would lose messages.
    pub(crate) fn refuse_unsafe_daemons(&self) -> Result<(), Failure> {
        for (machine, check) in self.plan.machines.iter().zip(self.check()) {
            let check = check.map_err(|error| self.unreachable(machine, &error))?;
            let Some(daemon) = check.daemon else {
                let message = format!("{} ({}) has no daemon of this run", machine.id, machine.host);
                return Err(Failure::runtime(message, "`plaudit cluster up` starts it".to_string()));
            };
            if let Err(why) = daemon.overlay {
                let message = format!("the daemon of {} would lose large messages: {why}", machine.id);
                let help = "take it down and up again with `plaudit cluster down` and `up`".to_string();
                return Err(Failure::runtime(message, help));
            }
        }
        Ok(())
    }

    /// Tells whoever watches this run that it is not to be brought back; or takes that back.
    pub(crate) fn mark_taken_down(&self, is_down: bool) {
        let path = self.folder().join(TAKEN_DOWN);
        // Where nothing can be written, nobody watches either.
        let _ = if is_down { std::fs::write(path, "") } else { std::fs::remove_file(path) };
    }

    /// Whether somebody took this run down.
    pub(crate) fn was_taken_down(&self) -> bool {
        self.folder().join(TAKEN_DOWN).exists()
    }

    /// Ends everything on every machine. What could not be reached is said.
    pub(crate) fn down(&self) -> (Ended, Vec<MachineError>) {
        let (mut sum, mut failed) = (Ended::default(), Vec::new());
        let all = self.on_all(|machine| {
            let words = self.words(machine, "end");
            errand::<Ended>(machine, &Errand { words, input: Vec::new(), patience: ENDING })
        });
        for ended in all {
            match ended {
                Ok(ended) => {
                    sum.processes += ended.processes;
                    sum.segments += ended.segments;
                }
                Err(error) => failed.push(error),
            }
        }
        (sum, failed)
    }
}
