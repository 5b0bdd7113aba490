//! Robots that configs name, the sessions in which people move them, and how an arm is held whatever its session does.
//!
//! A session is a process of its own, with a folder among the runs. It is asked over the address in that folder, so that a studio which
//! is started again finds it, and one that ends moves nothing: the session holds the arm when nobody looks any more. A hold goes three
//! ways, one after the other: a file in the session's folder, which it sees also after it stood still; its address; and, where it does
//! not confirm, straight to the robot server.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use plaudit_view::{ControlClient, ControlError, ControlReply, HOLD_FILE, RunProcess};
use serde_json::{Value, json};

use crate::backend::{Backend, RobotConfig};
use crate::folder::Folder;
use crate::http::Refusal;
use crate::runs::RUNS_FOLDER;

/// How long a session may take to answer what a page shows, and how long to hold the arm before its server is told.
const PATIENCE: Duration = Duration::from_secs(3);
const HOLD_PATIENCE: Duration = Duration::from_millis(700);
/// How often configs are looked for while somebody asks.
const LOOKS_EVERY: Duration = Duration::from_secs(5);

/// Robots of the folder, and their sessions.
pub(crate) struct Robots {
    folder: Folder,
    configs: Mutex<(Option<Instant>, Vec<RobotConfig>)>,
    known: Mutex<HashMap<String, KnownSession>>,
}

/// What is remembered of a session: its arm is held also when its process is gone.
#[derive(Default)]
struct KnownSession {
    /// Its robot server, once it said so.
    server: Option<String>,
    /// Whether a process of this studio's is the session, or will be.
    is_ours: bool,
}

/// A session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RobotSession {
    /// Its folder below the one that is shown.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// Whether its process goes on.
    pub(crate) is_alive: bool,
}

impl Robots {
    pub(crate) fn new(folder: Folder) -> Self {
        Self { folder, configs: Mutex::default(), known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, KnownSession>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The robots that configs name, looked for again from time to time.
    pub(crate) fn configs(&self, backend: Option<&dyn Backend>) -> Vec<RobotConfig> {
        let lock = || self.configs.lock().unwrap_or_else(PoisonError::into_inner);
        let (looked, found) = lock().clone();
        if looked.is_some_and(|at| at.elapsed() <= LOOKS_EVERY) {
            return found;
        }
        // Every page has a menu, and none of them waits for this.
        let found = backend.map(|backend| backend.robots(self.folder.root())).unwrap_or_default();
        *lock() = (Some(Instant::now()), found.clone());
        found
    }

    /// Whether there is any: what was found last.
    pub(crate) fn is_any(&self) -> bool {
        let configs = self.configs.lock().unwrap_or_else(PoisonError::into_inner);
        !configs.1.is_empty() || !self.known().is_empty()
    }

    /// A session was started here: it goes on until its process ends, also before it answers.
    pub(crate) fn started(&self, name: &str, path: &Path) -> Result<(), Refusal> {
        std::fs::create_dir_all(path).map_err(|error| Refusal::failed(error.to_string()))?;
        self.known().entry(name.into()).or_default().is_ours = true;
        Ok(())
    }

    /// Its process has ended.
    pub(crate) fn ended(&self, name: &str) {
        self.known().entry(name.into()).or_default().is_ours = false;
    }

    /// Sessions that go on, and those that answered once; the newest first.
    pub(crate) fn sessions(&self) -> Vec<RobotSession> {
        let runs = self.folder.root().join(RUNS_FOLDER);
        let entries = std::fs::read_dir(runs).into_iter().flatten().flatten();
        let mut found: Vec<_> = entries
            .filter_map(|entry| {
                Some((entry.metadata().ok()?.modified().ok()?, self.session_at(&entry.path())?))
            })
            .collect();
        found.sort_by_key(|(changed, session)| (!session.is_alive, std::cmp::Reverse(*changed)));
        found.into_iter().map(|(_, session)| session).collect()
    }

    /// The session of a folder: one whose process goes on, or that was known.
    fn session_at(&self, path: &Path) -> Option<RobotSession> {
        let path = self.folder.inside(path)?;
        let name = self.folder.name(&path);
        let client = ControlClient::of(&path);
        // Where the system does not tell processes apart, whoever listens is believed.
        let listens = client.is_some() && RunProcess::of(&path).is_none_or(|process| process.is_alive());
        let mut known = self.known();
        if listens {
            known.entry(name.clone()).or_default();
        }
        let is_ours = known.get(&name)?.is_ours;
        Some(RobotSession { name, path, is_alive: listens || is_ours })
    }

    /// A session by its name.
    pub(crate) fn session(&self, name: &str) -> Result<RobotSession, Refusal> {
        let not_here = || Refusal::not_found("there is no such session");
        let path = self.folder.find(name).ok_or_else(not_here)?;
        let is_run = path.parent() == Some(&self.folder.root().join(RUNS_FOLDER));
        self.session_at(&path).filter(|_| is_run).ok_or_else(not_here)
    }

    /// Whether a session answers already.
    pub(crate) fn listens(&self, session: &RobotSession) -> bool {
        ControlClient::of(&session.path).is_some()
    }

    /// Asks a session.
    pub(crate) fn ask(&self, session: &RobotSession, request: &Value) -> Result<ControlReply, Refusal> {
        let gone = || Refusal::conflict("this session has ended; the arm holds");
        let client = ControlClient::of(&session.path).filter(|_| session.is_alive).ok_or_else(gone)?;
        let reply = client.ask(request, PATIENCE).map_err(|error| match error {
            ControlError::Refused(why) => Refusal::conflict(why),
            ControlError::Silent(_) => Refusal::conflict("the session does not answer"),
        })?;
        if let Some(server) = reply.value["server"].as_str() {
            self.known().entry(session.name.clone()).or_default().server = Some(server.into());
        }
        Ok(reply)
    }

    /// Holds the arm of a session, whatever the session does. Says who was told.
    pub(crate) fn hold(&self, backend: Option<&dyn Backend>, name: &str) -> Result<Value, Refusal> {
        let session = self.session(name)?;
        // What it would see when it goes on. One that has ended sees nothing, and moves nothing.
        let is_written = std::fs::write(session.path.join(HOLD_FILE), "").is_ok();
        let told = ControlClient::of(&session.path)
            .filter(|_| session.is_alive)
            .map(|client| client.ask(&json!({"do": "hold"}), HOLD_PATIENCE));
        let by_session = matches!(told, Some(Ok(_)));
        if let Some(Ok(reply)) = &told
            && reply.value["told"] == true
        {
            return Ok(json!({"held": true, "by": "its session"}));
        }
        let server = self.known().get(&session.name).and_then(|known| known.server.clone());
        let direct = server.as_deref().zip(backend).map(|(server, backend)| backend.hold_arm(server));
        match (by_session, direct) {
            (_, Some(Ok(()))) => Ok(json!({"held": true, "by": "the robot server"})),
            // Nothing has moved it yet, or its server does not answer: the guard tries again as long as it is held.
            (true, _) => Ok(json!({"held": true, "by": "its session, which lets nothing move"})),
            (false, direct) => {
                let why = direct.and_then(Result::err).unwrap_or_else(|| "its address is not known".into());
                let file = if is_written { "; the session holds it when it goes on" } else { "" };
                Err(Refusal::failed(format!(
                    "PRESS THE E-STOP: nobody confirms that the arm holds: {why}{file}"
                )))
            }
        }
    }

    /// Holds the arm of a robot that no session of this folder moves.
    pub(crate) fn hold_configured(
        &self,
        backend: Option<&dyn Backend>,
        name: &str,
    ) -> Result<Value, Refusal> {
        let robots = self.configs(backend);
        let robot = robots.into_iter().find(|robot| robot.name == name);
        let server = robot.and_then(|robot| robot.server);
        let server =
            server.ok_or_else(|| Refusal::conflict("nothing moves: this robot has no server of its own"))?;
        let backend = backend.ok_or_else(|| Refusal::conflict("this studio reaches no robots"))?;
        backend.hold_arm(&server).map_err(|why| Refusal::failed(format!("PRESS THE E-STOP: {why}")))?;
        Ok(json!({"held": true, "by": "the robot server"}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_folders_of_runs_alone() {
        let home = tempfile::tempdir().unwrap();
        for folder in ["logs/a", "logs/deep/b", "data/c"] {
            let path = home.path().join(folder);
            std::fs::create_dir_all(&path).unwrap();
            let text = r#"{"address": "127.0.0.1:1", "token": "t"}"#;
            std::fs::write(path.join("control.json"), text).unwrap();
        }
        let robots = Robots::new(Folder::open(home.path()).unwrap());
        assert!(robots.session("logs/a").is_ok(), "where processes are not told apart, it is believed");
        for name in ["logs/deep/b", "data/c", "logs/none", "../a", "logs", ".", "/etc"] {
            assert!(robots.session(name).is_err(), "{name}");
        }
        assert_eq!(robots.sessions().len(), 1);
        let said = robots.hold(None, "logs/a").unwrap_err();
        assert!(said.why.contains("E-STOP"), "{}", said.why);
        assert!(home.path().join("logs/a/hold").exists(), "it is held when it goes on");
    }
}
