//! Ctrl-C, `kill` and a closed terminal: the first asks the work to stop, the second insists.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What comes so soon after the first is the same request: `timeout` and schedulers signal a process and then its group.
const SAME_REQUEST: Duration = Duration::from_millis(500);

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Tells a process that whoever started it must not die without it: it then stops as on Ctrl-C.
pub(crate) const STOP_WITH_PARENT: &str = "PLAUDIT_STOP_WITH_PARENT";

/// Processes that must not outlive this one when it is stopped at once.
static CHILDREN: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// A second Ctrl-C ends this process too.
pub(crate) fn end_with_us(process: u32) {
    if let Ok(mut children) = CHILDREN.lock() {
        children.push(process);
    }
}

/// The process has ended by itself, and its number may soon be another's.
pub(crate) fn has_ended(process: u32) {
    if let Ok(mut children) = CHILDREN.lock() {
        children.retain(|child| *child != process);
    }
}

/// Asks a process to finish its step, save and end.
pub(crate) fn ask_to_stop(process: u32) {
    other_process::send(process, false);
}

fn end_children() {
    for child in CHILDREN.lock().map(|mut children| std::mem::take(&mut *children)).unwrap_or_default() {
        other_process::send(child, true);
    }
}

/// Whether the user asked to stop. Loops look after every step.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Listens from now on. What the parent process had it ignore stays ignored: a run under `nohup` outlives its
/// terminal, and one that a script put in the background is not stopped by the script's Ctrl-C.
pub(crate) fn listen_for_interrupts() {
    if std::env::var_os(STOP_WITH_PARENT).is_some() {
        other_process::stop_with_parent();
    }
    let ignored = inherited::ignored();
    // A handler that is there already (a second run in one process) does the same.
    let mut first: Option<Instant> = None;
    let _ = ctrlc::set_handler(move || {
        INTERRUPTED.store(true, Ordering::Relaxed);
        if first.get_or_insert_with(Instant::now).elapsed() > SAME_REQUEST {
            plaudit_robot::restore_terminal();
            end_children();
            std::process::exit(1);
        }
    });
    inherited::ignore(&ignored);
}

#[cfg(unix)]
mod other_process {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    /// As the parent's end, or its kill, would otherwise leave this process behind.
    #[cfg(target_os = "linux")]
    pub(super) fn stop_with_parent() {
        // A kernel that does not know it changes nothing else.
        let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGTERM);
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn stop_with_parent() {}

    pub(super) fn send(process: u32, at_once: bool) {
        let signal = if at_once { Signal::SIGKILL } else { Signal::SIGTERM };
        if let Ok(process) = i32::try_from(process) {
            // One that has ended meanwhile needs no signal.
            let _ = kill(Pid::from_raw(process), signal);
        }
    }
}

/// Elsewhere Ctrl-C reaches every process of the terminal.
#[cfg(not(unix))]
mod other_process {
    pub(super) fn stop_with_parent() {}

    pub(super) fn send(_process: u32, _at_once: bool) {}
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
