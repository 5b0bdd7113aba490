//! A document as a reader's terminal lives through it: one shell, one folder, block after block.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};

use crate::documents::markdown::{Block, Language, blocks};
use crate::documents::not_run::{GIVEN, NEEDS, NOT_COMPARED, NOT_RUN, Need};
use crate::documents::shell::commands;
use crate::documents::{DOCUMENTS, read, root, shape, smaller};

/// Longer than any document takes, on a busy machine too.
const LIMIT_SECS: &str = "900";

/// Runs a document, and those that go on from it.
pub(crate) fn run(documents: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    documents.iter().for_each(|document| run_in(document, folder.path()));
}

fn run_in(document: &str, folder: &Path) {
    let blocks = blocks(document, &read(document));
    let session = Session::prepare(document, folder);
    let mut script = session.opening();
    for block in &blocks {
        script += &match block.language {
            Language::Bash => session.shell(block),
            Language::Python => session.python(block),
            Language::Yaml => session.config(block),
            Language::Text | Language::Json | Language::Unknown => String::new(),
        };
    }
    session.play(&script);
    let others = NOT_COMPARED.iter().find(|(of, _)| *of == document).map_or(&[][..], |(_, others)| others);
    for pair in blocks.windows(2).filter(|pair| is_output(pair) && !session.leaves_out(&pair[0])) {
        let said = session.said(&pair[0]);
        if let Some(line) = shape::first_missing(&pair[1].text, &said, others) {
            panic!("{document}:{}: the run has no line like\n{line}\nIt said\n{said}", pair[1].line);
        }
    }
}

/// Whether the second block shows what the first one says.
fn is_output(pair: &[Block]) -> bool {
    pair[0].language == Language::Bash && pair[1].language == Language::Text && pair[1].follows
}

struct Session<'a> {
    document: &'a str,
    /// Where the reader is.
    work: PathBuf,
    /// What the test keeps: scripts, what was said, how long it took.
    notes: PathBuf,
    /// The address that a document's `127.0.0.1:8000` stands for.
    address: String,
}

impl<'a> Session<'a> {
    fn prepare(document: &'a str, folder: &Path) -> Self {
        let notes = folder.join("notes").join(document.replace('/', "_"));
        let work = folder.join("work");
        std::fs::create_dir_all(&notes).unwrap();
        std::fs::create_dir_all(folder.join("home")).unwrap();
        std::fs::create_dir_all(&work).unwrap();
        for given in GIVEN.iter().filter(|given| given.document == document) {
            let path = work.join(given.path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::copy(root().join(given.from), path).unwrap();
        }
        if let Some(python) = python_with("gymnasium") {
            give_python(&work.join(".venv/bin/python"), &python);
        }
        Self { document, work, notes, address: free_address(document) }
    }

    /// What is the same for every document: which exit codes are accepted, and what a server in the background needs.
    fn opening(&self) -> String {
        let notes = self.notes.display();
        format!(
            r#"
trap 'kill $(jobs -p) 2>/dev/null' EXIT
ended() {{ # status, place, the exit codes that are an answer
    local status=$1 place=$2; shift 2
    echo "$place took $((SECONDS - began)) s" >>{notes}/times; began=$SECONDS
    for accepted in "$@"; do [ "$status" = "$accepted" ] && return; done
    echo "$place ended with exit code $status" >{notes}/failed; exit 1
}}
ready() {{ # what a server says when it is ready
    for _ in $(seq 300); do grep -q 'listening on' "$1" && return; sleep 0.2; done
    return 1
}}
began=$SECONDS
"#
        )
    }

    fn shell(&self, block: &Block) -> String {
        let mut script = self.listen(block);
        for mut command in commands(block) {
            let place = format!("{}:{}", self.document, command.line);
            if let Some(reason) = self.reason(&command.text()) {
                println!("{place} is not run: {reason}");
                continue;
            }
            smaller::reduce(&mut command);
            let text = self.at_address(&command.text());
            println!("{place} $ {text}");
            writeln!(script, "{text}").unwrap();
            if text.ends_with('&') {
                writeln!(script, "ready '{}'", self.saying(block).display()).unwrap();
            }
            writeln!(script, "ended $? {place} {}", smaller::exit_codes(self.document, &command)).unwrap();
        }
        script
    }

    fn python(&self, block: &Block) -> String {
        let modules: Vec<&str> = block.text.lines().filter_map(imported).collect();
        let Some(python) = python_with(&modules.join(", ")) else {
            println!("{}:{} is not run: no Python has {modules:?}", self.document, block.line);
            return String::new();
        };
        let file = self.notes.join(format!("{}.py", block.line));
        std::fs::write(&file, self.at_address(&block.text)).unwrap();
        let place = format!("{}:{}", self.document, block.line);
        format!("{}{} {}\nended $? {place} 0\n", self.listen(block), python, file.display())
    }

    /// Part of a config: added to a recipe, unless it says itself what it is part of.
    fn config(&self, block: &Block) -> String {
        let file = self.notes.join(format!("{}.yaml", block.line));
        let recipe = smaller::recipe(self.document);
        let text = match block.text.contains("defaults:") {
            true => block.text.clone(),
            false => format!("defaults:\n  - {recipe}\n  - _self_\n{}\n", block.text),
        };
        std::fs::write(&file, text).unwrap();
        let place = format!("{}:{}", self.document, block.line);
        format!("{}plaudit config show {} -v\nended $? {place} 0\n", self.listen(block), file.display())
    }

    fn play(&self, script: &str) {
        let file = self.notes.join("script");
        std::fs::write(&file, script).unwrap();
        let binaries = Path::new(env!("CARGO_BIN_EXE_plaudit")).parent().unwrap();
        let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap());
        let status = Process::new("timeout")
            .args([LIMIT_SECS, "bash"])
            .arg(&file)
            .current_dir(&self.work)
            .env("PATH", path)
            .env("HOME", self.work.with_file_name("home"))
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .status()
            .unwrap();
        println!("{}", std::fs::read_to_string(self.notes.join("times")).unwrap_or_default());
        if status.success() {
            return;
        }
        let failed = std::fs::read_to_string(self.notes.join("failed"));
        let failed = failed.unwrap_or_else(|_| format!("{}: {status}", self.document));
        let mut said: Vec<_> =
            std::fs::read_dir(&self.notes).unwrap().map(|entry| entry.unwrap().path()).collect();
        said.retain(|path| path.extension().is_some_and(|extension| extension == "said"));
        said.sort();
        let said = said.last().map(|path| std::fs::read_to_string(path).unwrap()).unwrap_or_default();
        panic!("{failed}{said}");
    }

    /// Why a command is not run here, if it is not.
    fn reason(&self, command: &str) -> Option<String> {
        let listed =
            NOT_RUN.iter().find(|one| one.document == self.document && command.starts_with(one.command));
        let missing =
            NEEDS.iter().filter(|(word, _)| command.contains(word)).find(|(_, need)| !need.is_met());
        let missing = missing.map(|(_, need)| format!("there is no {need}"));
        listed.map(|one| one.reason.to_string()).or(missing)
    }

    /// Whether something of a block is not run, so that it has not said all it would.
    fn leaves_out(&self, block: &Block) -> bool {
        commands(block).iter().any(|command| self.reason(&command.text()).is_some())
    }

    fn at_address(&self, text: &str) -> String {
        text.replace("127.0.0.1:8000", &self.address)
            .replace("--port 8000", &format!("--port {}", self.address.rsplit(':').next().unwrap()))
    }

    fn listen(&self, block: &Block) -> String {
        format!("exec >'{}' 2>&1\n", self.saying(block).display())
    }

    fn saying(&self, block: &Block) -> PathBuf {
        self.notes.join(format!("{:06}.said", block.line))
    }

    fn said(&self, block: &Block) -> String {
        std::fs::read_to_string(self.saying(block)).unwrap()
    }
}

/// An address for a document's servers, which begin and end and begin again there. It lies below the ports that the system hands
/// out by itself: one of those is soon somebody else's connection.
fn free_address(document: &str) -> String {
    let number = DOCUMENTS.iter().position(|one| *one == document).unwrap() as u16;
    let is_free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let port = (0..20).map(|attempt| 21_000 + number + 100 * attempt).find(is_free);
    format!("127.0.0.1:{}", port.unwrap())
}

impl Need {
    fn is_met(&self) -> bool {
        match self {
            Self::Tool(name) => runs(Process::new("bash").args(["-c", &format!("command -v {name}")])),
            Self::PythonWith(modules) => python_with(modules).is_some(),
        }
    }
}

/// What a line of Python imports.
fn imported(line: &str) -> Option<&str> {
    let names = line.strip_prefix("import ").or_else(|| line.strip_prefix("from "))?;
    names.split(' ').next()
}

/// A Python that has these modules: the one of the oracles, or the one at hand.
fn python_with(modules: &str) -> Option<String> {
    let pythons = std::env::var("PLAUDIT_ORACLE_PYTHON").into_iter().chain(["python3".to_string()]);
    pythons.into_iter().find(|python| runs(Process::new(python).args(["-c", &format!("import {modules}")])))
}

fn runs(process: &mut Process) -> bool {
    let process = process.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    process.status().is_ok_and(|status| status.success())
}

/// What `python3 -m venv` would have put there.
fn give_python(at: &Path, python: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(at.parent().unwrap()).unwrap();
    std::fs::write(at, format!("#!/bin/sh\nexec '{python}' \"$@\"\n")).unwrap();
    std::fs::set_permissions(at, std::fs::Permissions::from_mode(0o755)).unwrap();
}
