//! Having something done on a machine: by its own plaudit, through the user's ssh, or right here.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use super::MachineError;
use crate::dora::quoted;
use crate::plan::Machine;

/// What is to be done: the words after the program's name, and what it reads.
#[derive(Debug, Clone, Default)]
pub struct Errand {
    /// The words.
    pub words: Vec<String>,
    /// What it reads from its standard input.
    pub input: Vec<u8>,
    /// How long it may take.
    pub patience: Duration,
}

/// Options of ssh: no questions, and no waiting for a machine that is gone.
const SSH: [&str; 8] = [
    "-T",
    "-oBatchMode=yes",
    "-oConnectTimeout=10",
    "-oServerAliveInterval=5",
    "-oServerAliveCountMax=3",
    "-oLogLevel=ERROR",
    "-oForwardAgent=no",
    "-oClearAllForwardings=yes",
];

/// The program, on its machine.
fn command(machine: &Machine, words: &[String]) -> Command {
    let Some(target) = &machine.ssh else {
        let mut command = Command::new(&machine.plaudit);
        command.args(words);
        return command;
    };
    let mut command = Command::new("ssh");
    command.args(SSH);
    if let Some(port) = machine.ssh_port {
        command.args(["-p".into(), port.to_string()]);
    }
    let program = quoted(&machine.plaudit.display().to_string());
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    command.arg("--").arg(target).arg(format!("exec {program} {}", words.join(" ")));
    command
}

/// Runs an errand and reads its answer.
pub fn errand<T: DeserializeOwned>(machine: &Machine, errand: &Errand) -> Result<T, MachineError> {
    let child = errand_stream(machine, &errand.words)?;
    let answer = answer(child, &errand.input, errand.patience, &name(machine))?;
    serde_json::from_str(&answer).map_err(|error| {
        let answer = answer.chars().take(200).collect();
        MachineError::Answer { machine: name(machine), answer, error }
    })
}

/// Asks the coordinator something through dora's command line, from a folder that has the token.
pub fn ask_dora(
    dora: &Path,
    folder: &Path,
    words: &[String],
    patience: Duration,
) -> Result<String, MachineError> {
    let mut command = Command::new(dora);
    command.args(words).current_dir(folder).env("XDG_CONFIG_HOME", folder.join("settings"));
    command.env_remove("DORA_AUTH_TOKEN").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let program = dora.display().to_string();
    let child = command.spawn().map_err(|error| MachineError::Start { program: program.clone(), error })?;
    answer(child, &[], patience, "dora")
}

/// What a program prints until it ends, if it ends well and in time.
fn answer(mut child: Child, input: &[u8], patience: Duration, program: &str) -> Result<String, MachineError> {
    let (answer, said) = (reader(child.stdout.take()), reader(child.stderr.take()));
    if let Some(mut pipe) = child.stdin.take() {
        // A machine that cannot be reached reads nothing; why will be said below.
        let _ = pipe.write_all(input);
    }
    let deadline = Instant::now() + patience;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(10)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                let (program, seconds) = (program.to_string(), patience.as_secs());
                return Err(MachineError::NoAnswer { program, seconds });
            }
        }
    };
    let (answer, said) = (answer.join().unwrap_or_default(), said.join().unwrap_or_default());
    if status.success() {
        return Ok(answer);
    }
    let said = if said.trim().is_empty() { status.to_string() } else { said.trim().to_string() };
    Err(MachineError::Refused { machine: program.to_string(), said })
}

/// Starts an errand whose answer is a stream.
pub fn errand_stream(machine: &Machine, words: &[String]) -> Result<Child, MachineError> {
    let mut command = command(machine, words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let program = command.get_program().to_string_lossy().into_owned();
    command.spawn().map_err(|error| MachineError::Start { program, error })
}

fn name(machine: &Machine) -> String {
    format!("{} ({})", machine.id, machine.host)
}

/// The most that an errand may answer.
const LONGEST_ANSWER: u64 = 16 << 20;

fn reader(pipe: Option<impl std::io::Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            let _ = std::io::Read::read_to_end(&mut std::io::Read::take(pipe, LONGEST_ANSWER), &mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
