//! The hacking monitor of a training run, as its config asks for it, and its alarms in words.

use plaudit_core::{Emit, Event, Level, Seed};
use plaudit_reward::hacking_monitor::{
    self as library, Alarm, AlarmResponse, HackingCheck, Limits, MonitorSettings, Reference, SavedFrames,
    Signal,
};

use crate::build::MonitoredReward;
use crate::config::LoadedConfig;
use crate::config::blocks::reward::{CompareWith, HackingMonitorSettings};
use crate::failure::Failure;
use crate::run::Run;

/// The monitor of a run whose config asks for one.
pub fn start(loaded: &LoadedConfig, monitored: MonitoredReward, run: &Run) -> library::HackingMonitor {
    let settings = &loaded.config.reward.hacking_monitor;
    let reference = match (settings.compare_with, monitored.second) {
        (CompareWith::Environment, _) => Reference::Environment,
        (CompareWith::Model, Some(second)) => Reference::Model(second),
        (CompareWith::Person, _) => Reference::Person,
        (CompareWith::None | CompareWith::Model, _) => Reference::Unavailable,
    };
    let seed = Seed::new(loaded.config.env.train.seed);
    let folder = run.path().join("hacking");
    library::HackingMonitor::new(monitor_settings(settings), monitored.term, reference, folder, seed)
        .with_second_opinion(monitored.second_opinion)
}

fn monitor_settings(settings: &HackingMonitorSettings) -> MonitorSettings {
    MonitorSettings {
        every: settings.every,
        action: settings.action,
        frames: settings.frames as usize,
        limits: Limits {
            false_alarms: settings.false_alarms,
            false_success: settings.false_success,
            ood_frames: settings.ood_frames,
            disagreement: settings.disagreement,
            second_opinion: settings.second_opinion,
            drift: settings.drift,
            concentration: settings.concentration,
        },
    }
}

/// Checks, if it is time to, and reports what was found; says whether the run should be saved and stop.
pub fn check(monitor: &mut library::HackingMonitor, step: u64, run: &mut Run) -> Result<bool, Failure> {
    let found = monitor.check(step).map_err(|error| Failure::caused_by(&error))?;
    let Some(found) = found else { return Ok(false) };
    run.emit(Event::Metrics { step, values: found.values() });
    if let Some(response) = found.response {
        let text = in_words(step, &found, response);
        run.emit(Event::Notice { level: Level::Warning, text });
    }
    Ok(found.response == Some(AlarmResponse::Pause))
}

fn in_words(step: u64, found: &HackingCheck, response: AlarmResponse) -> String {
    let alarm =
        |alarm: &Alarm| format!("{} is {:.2} (limit {:.2})", alarm.signal.name(), alarm.value, alarm.limit);
    let alarms = found.alarms.iter().map(alarm).collect::<Vec<_>>().join(", ");
    let done = match response {
        AlarmResponse::Warned => String::new(),
        AlarmResponse::Pause => "The run is saved and stops. ".into(),
        AlarmResponse::Terminal { is_new: true } => {
            "From now on only the ends of episodes are rewarded. ".into()
        }
        AlarmResponse::Terminal { is_new: false } => {
            "Only the ends of episodes are rewarded already. ".into()
        }
        AlarmResponse::Threshold { is_new: true, threshold } => {
            format!("From now on scores must be above {threshold:.4}. ")
        }
        AlarmResponse::Threshold { is_new: false, .. } => "The threshold cannot be raised further. ".into(),
    };
    let saved = found.saved.as_ref().map(next_step).unwrap_or_default();
    // What is rewarded less is not hacked by that.
    let what = match found.alarms.iter().all(|alarm| alarm.signal == Signal::SuccessDrop) {
        true => "the policy or its reward may be broken",
        false => "the reward may be hacked",
    };
    format!("step {step}: {what}: {alarms}. {done}{saved}").trim_end().into()
}

fn next_step(saved: &SavedFrames) -> String {
    let (count, folder) = (saved.count, saved.folder.display());
    let next = match saved.is_sorted {
        true => "plaudit reward train --from MODEL --add",
        false => "sort them into success/ and failure/, then plaudit reward train --from MODEL --add",
    };
    format!("{count} rewarded frames are in {folder}; to learn from them: {next} {folder}")
}
