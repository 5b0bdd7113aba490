//! Ctrl-C, `kill` and a closed terminal: the first asks the work to stop, the second insists.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What comes so soon after the first is the same request: `timeout` and schedulers signal a process and then its group.
const SAME_REQUEST: Duration = Duration::from_millis(500);

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Whether the user asked to stop. Loops look after every step.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Listens from now on. What the parent process had it ignore stays ignored: a run under `nohup` outlives its
/// terminal, and one that a script put in the background is not stopped by the script's Ctrl-C.
pub(crate) fn listen_for_interrupts() {
    let ignored = inherited::ignored();
    // A handler that is there already (a second run in one process) does the same.
    let mut first: Option<Instant> = None;
    let _ = ctrlc::set_handler(move || {
        INTERRUPTED.store(true, Ordering::Relaxed);
        if first.get_or_insert_with(Instant::now).elapsed() > SAME_REQUEST {
            plaudit_robot::restore_terminal();
            std::process::exit(1);
        }
    });
    inherited::ignore(&ignored);
}

#[cfg(unix)]
mod inherited {
    use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

    /// The signals that the handler is for.
    const HANDLED: [Signal; 3] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM];

    /// Those of them that are ignored now.
    pub(super) fn ignored() -> Vec<Signal> {
        HANDLED.into_iter().filter(|signal| is_ignored(*signal)).collect()
    }

    /// Ignores them.
    pub(super) fn ignore(signals: &[Signal]) {
        for signal in signals {
            // A signal that was ignored before can be ignored again.
            let _ = replace(*signal, &ignoring());
        }
    }

    /// The system reports how a signal is handled only when it is changed, so it is changed and put back.
    fn is_ignored(signal: Signal) -> bool {
        let Some(before) = replace(signal, &ignoring()) else { return false };
        let ignored = matches!(before.handler(), SigHandler::SigIgn);
        if !ignored {
            let _ = replace(signal, &before);
        }
        ignored
    }

    fn ignoring() -> SigAction {
        SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty())
    }

    #[allow(unsafe_code)]
    fn replace(signal: Signal, action: &SigAction) -> Option<SigAction> {
        // SAFETY: the action ignores the signal, which runs no code, or is one that was in force before and so was safe to
        // run then.
        unsafe { sigaction(signal, action) }.ok()
    }
}

#[cfg(not(unix))]
mod inherited {
    pub(super) fn ignored() {}

    pub(super) fn ignore((): &()) {}
}
