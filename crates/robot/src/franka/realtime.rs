//! What a machine can do for a loop of 1 kHz, and what it does not allow.

use franka::RealtimeConfig;
use franka::realtime::{
    has_realtime_kernel, pin_current_thread_to_cpu, set_current_thread_to_highest_scheduler_priority,
};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, getrlimit};

use super::Notices;

/// How the loop runs here.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoopSettings {
    pub(super) realtime: RealtimeConfig,
    pub(super) cpu: Option<usize>,
}

/// Locks memory and finds out what the loop may have. What it may not is told; the loop then runs without.
pub(super) fn prepare(cpu: Option<usize>, notices: &Notices) -> LoopSettings {
    lock_memory(notices);
    let cpu = cpu.filter(|cpu| {
        let cpu = *cpu;
        let tried = in_thread(move || pin_current_thread_to_cpu(cpu));
        let is_allowed = tried.and_then(|tried| tried);
        if let Err(why) = &is_allowed {
            notices.push(format!("the loop cannot have core {cpu} ({why}): it runs on any"));
        }
        is_allowed.is_ok()
    });
    let is_realtime = has_realtime_kernel();
    if !is_realtime {
        notices.push("this kernel is not PREEMPT_RT: a real robot stops when cycles are missed".into());
    }
    let tried = in_thread(set_current_thread_to_highest_scheduler_priority);
    let realtime = match tried.and_then(|tried| tried) {
        Ok(()) if is_realtime => RealtimeConfig::Enforce,
        Ok(()) => RealtimeConfig::Ignore,
        Err(why) => {
            notices.push(format!("real-time priority (SCHED_FIFO) is not allowed: {why}"));
            RealtimeConfig::Ignore
        }
    };
    LoopSettings { realtime, cpu }
}

/// Memory that comes later is locked only where locking cannot fail: a failure then would end the process.
fn lock_memory(notices: &Notices) {
    let is_unlimited = getrlimit(Resource::Memlock).current.is_none();
    let later = if is_unlimited { MlockAllFlags::FUTURE } else { MlockAllFlags::empty() };
    match mlockall(MlockAllFlags::CURRENT | later) {
        Ok(()) if is_unlimited => {}
        Ok(()) => notices.push("memory that is allocated from now on is not locked (RLIMIT_MEMLOCK)".into()),
        Err(error) => {
            notices.push(format!("memory cannot be locked ({error}): a page fault may cost cycles"))
        }
    }
}

/// Runs something on a thread that ends after it: the one that asks keeps its priority and its cores, and so do the threads
/// that it starts.
pub(super) fn in_thread<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    let thread = std::thread::Builder::new().name("franka-trial".into()).spawn(run);
    let thread = thread.map_err(|error| error.to_string())?;
    thread.join().map_err(|_| "the thread ended before it was done".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_is_not_there_is_told_and_the_loop_runs_without() {
        let notices = Notices::default();
        let settings = prepare(Some(100_000), &notices);
        assert_eq!(settings.cpu, None);
        let notices = notices.take();
        assert!(
            notices.iter().any(|notice| notice.starts_with("the loop cannot have core 100000")),
            "{notices:?}"
        );
    }
}
