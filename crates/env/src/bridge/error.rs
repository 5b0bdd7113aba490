//! What can go wrong with environments in Python, and what to do about it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plaudit_core::EnvError;
use plaudit_pyprocess::{Failure, PythonError, printed};
use thiserror::Error;

/// Why environments in Python could not be made, or broke.
#[derive(Debug, Error)]
pub enum BridgeError {
    /// An invalid setting.
    #[error("{0}")]
    Setting(String),
    /// Not on this system.
    #[error("environments in Python need Linux, for its shared memory; this is {0}")]
    System(&'static str),
    /// Nothing to run.
    #[error("cannot run `{}`: {source}; choose a Python interpreter that exists", python.display())]
    Interpreter {
        /// What was to be run.
        python: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A Python without what is needed.
    #[error(
        "the Python at {executable} has no module `{module}`; install it there \
         (`{executable} -m pip install {module}`), or choose another interpreter"
    )]
    NoModule {
        /// What is missing.
        module: String,
        /// The interpreter that misses it.
        executable: String,
    },
    /// An id that nothing registered.
    #[error("Gymnasium has no `{id}`: {message}{}", did_you_mean(nearest))]
    UnknownId {
        /// What was asked for.
        id: String,
        /// What Gymnasium said.
        message: String,
        /// Registered ids that look like it.
        nearest: Vec<String>,
    },
    /// Something that cannot be bridged, in words.
    #[error("`{id}` {during}: {message}")]
    Refused {
        /// The environment.
        id: String,
        /// What it was doing.
        during: During,
        /// What is wrong.
        message: String,
    },
    /// Python raised an exception.
    #[error("`{id}` {during}: {error}\n{}", traceback.trim_end())]
    Raised {
        /// The environment.
        id: String,
        /// What it was doing.
        during: During,
        /// The exception's type and message.
        error: String,
        /// Where it came from.
        traceback: String,
    },
    /// The process ended.
    #[error("`{id}` {during}: its Python process {how}{}{}", during.restart(), printed(output))]
    Died {
        /// The environment.
        id: String,
        /// What it was doing.
        during: During,
        /// How it ended, such as `exited with status 1`.
        how: String,
        /// The end of what it printed.
        output: String,
    },
    /// The process did not answer in time and was ended.
    #[error(
        "`{id}` {during}: no answer within {secs} s, so its Python process was killed; raise the timeout{}{}",
        during.restart_too(),
        printed(output)
    )]
    TimedOut {
        /// The environment.
        id: String,
        /// What it was doing.
        during: During,
        /// How long it was waited for.
        secs: f64,
        /// The end of what it printed, with the place where Python was.
        output: String,
    },
    /// There is no answer yet; it may still come.
    #[error("`{id}` {during}: no answer for {} ms", waited.as_millis())]
    Late {
        /// The robot.
        id: String,
        /// What it was doing.
        during: During,
        /// Since when it was asked.
        waited: Duration,
    },
    /// The process sent an invalid message.
    #[error(
        "`{id}` {during}: its Python process sent an invalid message ({message}) and was killed{}",
        printed(output)
    )]
    InvalidMessage {
        /// The environment.
        id: String,
        /// What it was doing.
        during: During,
        /// What is wrong with it.
        message: String,
        /// The end of what it printed.
        output: String,
    },
    /// More than fits in memory.
    #[error("`{id}`: {message}")]
    TooLarge {
        /// The environment.
        id: String,
        /// What needs how much.
        message: String,
    },
    /// A reward that is not finite.
    #[error(
        "`{id}` returned reward {value} in environment {row}; rewards must be finite, so the episode cannot be used"
    )]
    Reward {
        /// The environment.
        id: String,
        /// The row.
        row: usize,
        /// The reward.
        value: f32,
    },
    /// A state that is NaN.
    #[error(
        "`{id}` shows NaN in state value {at} of environment {row}; its simulation has probably diverged"
    )]
    State {
        /// The environment.
        id: String,
        /// The row.
        row: usize,
        /// The place in its state vector.
        at: usize,
    },
    /// A fresh process with other environments than before.
    #[error("`{id}` restarted with different spaces than before; models trained on the old ones do not fit")]
    Changed {
        /// The environment.
        id: String,
    },
    /// The process is gone since an earlier error.
    #[error("the Python process of `{id}` exited after an earlier error; reset restarts it")]
    Gone {
        /// The environment.
        id: String,
    },
    /// The process of a robot is gone since an earlier error.
    #[error("the Python process of the robot `{id}` is gone since an earlier error")]
    Disconnected {
        /// The robot.
        id: String,
    },
    /// The system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl BridgeError {
    /// Whether a reset may help without a fresh process.
    pub(super) fn is_survivable(&self) -> bool {
        matches!(
            self,
            Self::Refused { during: During::Step, .. }
                | Self::Raised { during: During::Step, .. }
                | Self::Reward { .. }
                | Self::State { .. }
        )
    }
}

impl From<BridgeError> for EnvError {
    fn from(error: BridgeError) -> Self {
        match error {
            BridgeError::Setting(words) => Self::Setting(words.into()),
            other => Self::Backend(Box::new(other)),
        }
    }
}

/// What environments in Python were doing when something went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum During {
    /// Being imported and made.
    Start,
    /// Resetting.
    Reset,
    /// Stepping.
    Step,
    /// A robot: being read.
    Observe,
    /// A robot: taking targets.
    Act,
}

impl During {
    /// What helps after the process is gone. Robots are not restarted by a reset: somebody has to look first.
    fn restart(self) -> &'static str {
        match self {
            Self::Observe | Self::Act => "",
            Self::Start | Self::Reset | Self::Step => "; reset restarts it",
        }
    }

    fn restart_too(self) -> &'static str {
        match self {
            Self::Observe | Self::Act => "",
            Self::Start | Self::Reset | Self::Step => ", or reset to restart it",
        }
    }
}

impl fmt::Display for During {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "could not be made",
            Self::Reset => "failed in reset",
            Self::Step => "failed in step",
            Self::Observe => "could not be read",
            Self::Act => "did not take its targets",
        })
    }
}

impl BridgeError {
    /// What became of a process that was doing something, in words. It could have taken `secs`.
    pub(super) fn of(failure: Failure, python: &Path, id: &str, during: During, secs: f64) -> Self {
        let id = id.to_owned();
        match failure {
            Failure::Interpreter(source) => Self::Interpreter { python: python.into(), source },
            Failure::Reported(error) => Self::reported(*error, id, during),
            Failure::Died { how, output } => Self::Died { id, during, how, output },
            Failure::TimedOut { output } => Self::TimedOut { id, during, secs, output },
            Failure::InvalidMessage { message, output } => {
                Self::InvalidMessage { id, during, message, output }
            }
            Failure::Io { what, source } => Self::Io { what, source },
        }
    }

    /// The error that Python describes.
    pub(super) fn reported(error: PythonError, id: String, during: During) -> Self {
        match error.kind.as_str() {
            "no_module" => Self::NoModule { module: error.module, executable: error.executable },
            "unknown_id" => Self::UnknownId { id, message: error.error, nearest: error.nearest },
            "refused" => Self::Refused { id, during, message: error.error },
            _ => Self::Raised { id, during, error: error.error, traceback: error.traceback },
        }
    }
}

fn did_you_mean(nearest: &[String]) -> String {
    match nearest {
        [] => " (import the module that registers it)".into(),
        names => format!(
            " (did you mean {}?)",
            names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(json: &str, during: During) -> String {
        let error = serde_json::from_str(json).unwrap();
        BridgeError::reported(error, "Door-v0".into(), during).to_string()
    }

    #[test]
    fn what_python_reports_is_shown_with_its_hint() {
        assert_eq!(
            message(
                r#"{"kind": "no_module", "error": "", "traceback": "", "module": "gymnasium", "executable": "/opt/py"}"#,
                During::Start
            ),
            "the Python at /opt/py has no module `gymnasium`; install it there (`/opt/py -m pip install \
             gymnasium`), or choose another interpreter"
        );
        assert_eq!(
            message(
                r#"{"kind": "unknown_id", "error": "No registered env.", "traceback": "x", "nearest": ["Door-v1"]}"#,
                During::Start
            ),
            "Gymnasium has no `Door-v0`: No registered env. (did you mean `Door-v1`?)"
        );
        assert_eq!(
            message(
                r#"{"kind": "raised", "error": "ValueError: boom", "traceback": "Traceback\n  x\n"}"#,
                During::Step
            ),
            "`Door-v0` failed in step: ValueError: boom\nTraceback\n  x"
        );
    }
}
