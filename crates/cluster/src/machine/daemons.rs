//! A machine's daemon, and on the first machine the coordinator: started, looked at, ended.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{MachineError, file_error, processes, shared_memory};
use crate::dora::{self, OVERLAY_VARIABLE, check_overlay, files};
use crate::plan::{Machine, Plan};

/// What a machine needs before anything is started on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StartRequest {
    /// The plan.
    pub plan: Plan,
    /// The rank of the machine meant.
    pub rank: usize,
    /// Files for the run directory, by their names in it.
    pub files: BTreeMap<String, String>,
    /// What the daemon shows to the coordinator; not set on the coordinator's own machine.
    pub token: Option<String>,
}

/// What runs there now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The daemon's process.
    pub daemon: i32,
    /// The coordinator's token, on its machine.
    pub token: Option<String>,
}

/// What was found and ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ended {
    /// Processes.
    pub processes: usize,
    /// Segments of shared memory that they left behind.
    pub segments: usize,
}

/// What runs on a machine, for a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// The coordinator's process, on its machine.
    pub coordinator: Option<i32>,
    /// The daemon.
    pub daemon: Option<DaemonCheck>,
    /// Processes of the plan.
    pub workers: usize,
    /// The coordinator's token, on its machine.
    pub token: Option<String>,
}

/// A daemon that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonCheck {
    /// Its process.
    pub pid: i32,
    /// Whether its data plane waits before it drops; if not, why.
    pub overlay: Result<(), String>,
}

/// One of dora's two programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program {
    Coordinator,
    Daemon,
}

impl Program {
    fn word(self) -> &'static str {
        match self {
            Self::Coordinator => "coordinator",
            Self::Daemon => "daemon",
        }
    }
}

/// What a process of this machine is, for a run. Another machine of the same run may be on the same kernel, so each is
/// known by the words that only it is started with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Coordinator,
    Daemon,
    Worker,
    Mirror,
}

fn role(plan: &Plan, machine: &Machine, words: &[String]) -> Option<Role> {
    let has = |word: &str| words.iter().any(|other| other == word);
    let after = |flag: &str| words.iter().position(|word| word == flag).and_then(|at| words.get(at + 1));
    let is_daemon = after("--machine-id") == Some(&machine.id);
    let is_worker = || {
        let own = plan.processes.iter().filter(|process| process.machine == machine.rank);
        own.map(|process| dora::worker(plan, process)).any(|own| words.ends_with(&own))
    };
    if has("coordinator") && machine.rank == plan.head().rank {
        Some(Role::Coordinator)
    } else if has("daemon") && is_daemon {
        Some(Role::Daemon)
    } else if has("worker") && is_worker() {
        Some(Role::Worker)
    } else if has("mirror") && after("--rank") == Some(&machine.rank.to_string()) {
        Some(Role::Mirror)
    } else {
        None
    }
}

/// The processes of a run on this machine.
fn of_run(plan: &Plan, machine: &Machine) -> Vec<(Role, processes::Running)> {
    let all = processes::that_name(&plan.run_dir).into_iter();
    all.filter_map(|process| Some((role(plan, machine, &process.words)?, process))).collect()
}

/// Writes what the machine needs into the run directory: the plan, dora's files, and what else is asked for.
pub fn write_files(request: &StartRequest) -> Result<(), MachineError> {
    let (plan, folder) = (&request.plan, request.plan.run_dir.join(files::FOLDER));
    fs::create_dir_all(&folder).map_err(file_error("cannot make", &folder))?;
    for process in plan.processes.iter().filter(|process| process.machine == request.rank) {
        let own = plan.folder_of(process);
        fs::create_dir_all(&own).map_err(file_error("cannot make", &own))?;
    }
    let text = plan.to_json().map_err(std::io::Error::from);
    let path = plan.run_dir.join(Plan::FILE);
    replace(&path, &text.map_err(file_error("cannot write", &path))?, 0o644)?;
    replace(&folder.join(files::GRAPH), &dora::graph(plan), 0o644)?;
    replace(&folder.join(files::MACHINES), &dora::machines(plan), 0o644)?;
    replace(&folder.join(files::OVERLAY), &dora::overlay(), 0o644)?;
    if let Some(token) = &request.token {
        replace(&folder.join(files::TOKEN), &format!("{token}\n"), 0o600)?;
    }
    for (name, text) in &request.files {
        let path = plan.run_dir.join(name);
        if !path.exists() {
            replace(&path, text, 0o644)?;
        }
    }
    Ok(())
}

/// Removes what processes of this machine said at the end of an earlier run: it is not the word of the next one.
pub fn forget_outcomes(plan: &Plan, machine: &Machine) {
    for process in plan.processes.iter().filter(|process| process.machine == machine.rank) {
        // That there is none is the usual case.
        let _ = fs::remove_file(plan.outcome(process));
    }
}

/// A file that is there whole or not at all, with its permissions from the start: it may be a secret.
fn replace(path: &Path, text: &str, mode: u32) -> Result<(), MachineError> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    let beside = path.with_file_name(name);
    let write = || -> std::io::Result<()> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&beside)?;
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&beside);
        file_error("cannot write", path)(error)
    })
}

/// Starts the coordinator, unless it runs, and waits for its token.
pub fn start_coordinator(plan: &Plan) -> Result<String, MachineError> {
    let folder = plan.run_dir.join(files::FOLDER);
    let token = folder.join(files::TOKEN);
    if running(plan, plan.head(), Role::Coordinator).is_none() {
        // A coordinator makes a new token each time; the old one must not be taken for it.
        let _ = fs::remove_file(&token);
        let machine = plan.head();
        let mut child = spawn(plan, machine, Program::Coordinator, &dora::coordinator(plan))?;
        let log = log_of(plan, machine, Program::Coordinator);
        wait_for(&mut child, Program::Coordinator, &log, || token.exists() && listens(plan))?;
    }
    let text = fs::read_to_string(&token).map_err(file_error("cannot read", &token))?;
    Ok(text.trim().to_string())
}

fn listens(plan: &Plan) -> bool {
    let address = std::net::SocketAddr::new(plan.head().address, plan.coordinator_port);
    std::net::TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok()
}

/// Starts a machine's daemon, unless it runs.
pub fn start_daemon(plan: &Plan, machine: &Machine) -> Result<i32, MachineError> {
    if let Some(pid) = running(plan, machine, Role::Daemon) {
        return Ok(pid);
    }
    let mut child = spawn(plan, machine, Program::Daemon, &dora::daemon(plan, machine))?;
    let settled = Instant::now() + Duration::from_millis(500);
    let log = log_of(plan, machine, Program::Daemon);
    wait_for(&mut child, Program::Daemon, &log, || Instant::now() >= settled)?;
    Ok(child.id() as i32)
}

fn running(plan: &Plan, machine: &Machine, role: Role) -> Option<i32> {
    of_run(plan, machine).into_iter().find(|(other, _)| *other == role).map(|(_, process)| process.pid)
}

/// Starts a program that outlives who started it, and says nothing but to its log.
fn spawn(plan: &Plan, machine: &Machine, program: Program, words: &[String]) -> Result<Child, MachineError> {
    let (folder, log) = (plan.run_dir.join(files::FOLDER), log_of(plan, machine, program));
    let open = || OpenOptions::new().create(true).append(true).open(&log);
    let (out, err): (File, File) = (
        open().map_err(file_error("cannot write", &log))?,
        open().map_err(file_error("cannot write", &log))?,
    );
    let mut command = Command::new(&machine.dora);
    command.args(words).current_dir(&folder).stdin(Stdio::null()).stdout(out).stderr(err).process_group(0);
    command.envs(&machine.environment);
    // The coordinator copies its token into the user's settings as well; here that is the run's own folder.
    command.env("XDG_CONFIG_HOME", folder.join("settings"));
    command.env(OVERLAY_VARIABLE, folder.join(files::OVERLAY));
    command.env_remove("ZENOH_CONFIG").env_remove("DORA_AUTH_TOKEN");
    let program = machine.dora.display().to_string();
    command.spawn().map_err(|error| MachineError::Start { program, error })
}

fn log_of(plan: &Plan, machine: &Machine, program: Program) -> PathBuf {
    plan.run_dir.join(files::FOLDER).join(format!("{}-{}.log", program.word(), machine.id))
}

fn wait_for(
    child: &mut Child,
    program: Program,
    log: &Path,
    ready: impl Fn() -> bool,
) -> Result<(), MachineError> {
    let deadline = Instant::now() + Duration::from_secs(15);
    while !ready() {
        if let Ok(Some(_)) = child.try_wait() {
            return Err(MachineError::EndedAtOnce { program: program.word(), said: last_words(log) });
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            return Err(MachineError::NoAnswer { program: program.word().into(), seconds: 15 });
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// The last lines that a program's log has.
fn last_words(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(6)..].join(" / ")
}

/// What runs on a machine for a run, and whether its data plane is safe.
pub fn check(plan: &Plan, machine: &Machine) -> Check {
    let all = of_run(plan, machine);
    let find = |role: Role| all.iter().find(|(other, _)| *other == role).map(|(_, process)| process);
    let daemon = find(Role::Daemon)
        .map(|process| DaemonCheck { pid: process.pid, overlay: overlay_of(process.pid, &process.words) });
    let token = fs::read_to_string(plan.run_dir.join(files::FOLDER).join(files::TOKEN)).ok();
    Check {
        coordinator: find(Role::Coordinator).map(|process| process.pid),
        daemon,
        workers: all.iter().filter(|(role, _)| *role == Role::Worker).count(),
        token: token.map(|token| token.trim().to_string()),
    }
}

/// Whether a daemon runs with an overlay that makes the data plane wait: by its own words, else by its environment.
fn overlay_of(pid: i32, words: &[String]) -> Result<(), String> {
    let flag =
        words.iter().position(|word| word == "--zenoh-config-overlay").and_then(|at| words.get(at + 1));
    let path = flag.cloned().or_else(|| processes::variable_of(pid, OVERLAY_VARIABLE));
    let path = path.ok_or("it was started without an overlay of the data plane")?;
    let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    check_overlay(&text).map_err(|error| format!("{path}: {error}"))
}

/// Ends a machine's daemon and its processes, and leaves the coordinator.
pub fn end_daemon(plan: &Plan, machine: &Machine, patience: Duration) {
    for role in [Role::Daemon, Role::Worker] {
        let all = of_run(plan, machine).into_iter().filter(|(other, _)| *other == role);
        let pids: Vec<i32> = all.map(|(_, process)| process.pid).collect();
        processes::end_all(&pids, patience);
    }
}

/// Ends everything of a run on a machine, and removes what it left in shared memory.
pub fn end(plan: &Plan, machine: &Machine, patience: Duration) -> Ended {
    let all = of_run(plan, machine);
    let pids = |roles: &[Role]| -> Vec<i32> {
        all.iter().filter(|(role, _)| roles.contains(role)).map(|(_, process)| process.pid).collect()
    };
    // A daemon that sees its workers end would start them again, so it goes first, and takes them along.
    let mut ended = processes::end_all(&pids(&[Role::Daemon]), patience);
    ended += processes::end_all(&pids(&[Role::Worker, Role::Mirror, Role::Coordinator]), patience);
    // Workers that a daemon started while it ended.
    let late: Vec<i32> = of_run(plan, machine).iter().map(|(_, process)| process.pid).collect();
    ended += processes::end_all(&late, patience);
    Ended { processes: ended, segments: shared_memory::remove_orphans() }
}
