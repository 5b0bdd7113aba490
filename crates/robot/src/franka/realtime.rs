//! What a machine can do for a loop of 1 kHz, and what it does not allow.

use franka::RealtimeConfig;
use franka::realtime::{has_realtime_kernel, set_current_thread_to_highest_scheduler_priority};
use rustix::mm::{MlockAllFlags, mlockall};

/// Locks memory and finds out whether real-time scheduling is allowed. What is not is told; the loop then runs without.
pub(super) fn prepare(cpu: Option<usize>, notices: &mut Vec<String>) -> RealtimeConfig {
    if let Err(error) = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE) {
        notices.push(format!("memory cannot be locked ({error}): a page fault may cost cycles"));
    }
    if let Some(cpu) = cpu
        && let Err(why) = in_thread(move || franka::realtime::pin_current_thread_to_cpu(cpu))
    {
        notices.push(format!("the loop cannot keep core {cpu} to itself: {why}"));
    }
    let is_realtime = has_realtime_kernel();
    if !is_realtime {
        notices.push("this kernel is not PREEMPT_RT: the robot will stop when cycles are missed".into());
    }
    match in_thread(set_current_thread_to_highest_scheduler_priority) {
        Ok(()) if is_realtime => RealtimeConfig::Enforce,
        Ok(()) => RealtimeConfig::Ignore,
        Err(why) => {
            notices.push(format!("real-time scheduling (SCHED_FIFO) is not allowed: {why}"));
            RealtimeConfig::Ignore
        }
    }
}

/// Tries something on a thread that ends after it: the one that asks keeps its priority.
fn in_thread(run: impl FnOnce() -> Result<(), String> + Send + 'static) -> Result<(), String> {
    let thread = std::thread::Builder::new().name("franka-trial".into()).spawn(run);
    let thread = thread.map_err(|error| error.to_string())?;
    thread.join().unwrap_or_else(|_| Err("the thread ended before it could try".into()))
}
