//! What happened during teleoperation.

use std::fmt;

use plaudit_core::Step;
use serde::{Serialize, Serializer};

use super::display::fact;

/// Why an episode ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum EpisodeEnd {
    /// The model is sure of success.
    Model,
    /// A person says that it is one.
    PersonSuccess,
    /// A person says that it is none.
    PersonFailure,
    /// The tool is at its target.
    Pose,
    /// It has as many steps as it may have.
    StepLimit,
    /// The arm, a camera or its server was lost.
    Broken,
}

/// What is known about an episode at its end.
#[derive(Debug, Clone, Serialize)]
pub(super) struct EpisodeReport {
    pub(super) end: EpisodeEnd,
    pub(super) steps: u64,
    pub(super) seconds: f64,
    /// What the model said last.
    pub(super) probability: Option<f32>,
    /// Frames in a row above the threshold, up to the last.
    pub(super) streak: usize,
    /// Whether that was a success.
    pub(super) model_success: bool,
    /// Whether the tool was at its target.
    pub(super) at_target: bool,
}

impl EpisodeReport {
    /// What a person reads; a success takes `hold` frames.
    pub(super) fn sentence(&self, hold: usize) -> String {
        let why = match self.end {
            EpisodeEnd::Model => "success, says the model".to_string(),
            EpisodeEnd::PersonSuccess => "success, says the person".into(),
            EpisodeEnd::PersonFailure => "failure, says the person".into(),
            EpisodeEnd::Pose => "the tool stayed at its target".into(),
            EpisodeEnd::StepLimit => format!("over after {} steps", self.steps),
            EpisodeEnd::Broken => "broken off".into(),
        };
        let model = match self.probability {
            Some(probability) => format!("; p {probability:.3}, {}/{hold} frames", self.streak),
            None => String::new(),
        };
        let place = if self.at_target { "at its target" } else { "not at its target" };
        format!("{why}, after {:.1} s{model}; the tool is {place}", self.seconds)
    }

    /// Whether model and person agree, where a person said something and the model did.
    fn agrees(&self) -> Option<bool> {
        self.probability?;
        match self.end {
            EpisodeEnd::PersonSuccess => Some(self.model_success),
            EpisodeEnd::PersonFailure => Some(!self.model_success),
            _ => None,
        }
    }
}

/// What happened.
#[derive(Debug, Default, Serialize)]
pub struct TeleopSummary {
    pub(super) episodes: Vec<EpisodeReport>,
    pub(super) seconds: f64,
    pub(super) steps: u64,
    /// Steps that were over after their deadline.
    pub(super) late_steps: u64,
    pub(super) worst_overrun_ms: f64,
    /// Steps in which the pilot moved the arm.
    pub(super) moved_steps: u64,
    /// Milliseconds that scores took.
    #[serde(rename = "scores", serialize_with = "counted")]
    pub(super) took_ms: Vec<f64>,
    /// Frames that were replaced by a newer one before they were scored.
    pub(super) replaced: u64,
}

fn counted<S: Serializer>(took_ms: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(took_ms.len() as u64)
}

impl TeleopSummary {
    pub(super) fn count(&mut self, step: &Step) {
        self.steps += 1;
        let overrun_ms = 1e3 * f64::from(fact(step, "overrun"));
        self.late_steps += u64::from(overrun_ms > 0.0);
        self.worst_overrun_ms = self.worst_overrun_ms.max(overrun_ms);
        self.moved_steps += u64::from(fact(step, "intervention") > 0.0);
    }

    fn count_of(&self, end: EpisodeEnd) -> usize {
        self.episodes.iter().filter(|episode| episode.end == end).count()
    }
}

/// The value below which a share of values lies; 0 of none.
fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    sorted.get((share * last as f64).round() as usize).copied().unwrap_or(0.0)
}

impl fmt::Display for TeleopSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ends = [
            (EpisodeEnd::Model, "by the model"),
            (EpisodeEnd::PersonSuccess, "as a success by key"),
            (EpisodeEnd::PersonFailure, "as a failure by key"),
            (EpisodeEnd::Pose, "by the pose of the tool"),
            (EpisodeEnd::StepLimit, "at the step limit"),
            (EpisodeEnd::Broken, "broken off"),
        ];
        let told = ends.iter().filter(|(end, _)| self.count_of(*end) > 0);
        let told = told.map(|(end, how)| format!("{} {how}", self.count_of(*end))).collect::<Vec<_>>();
        let how = if told.is_empty() { String::new() } else { format!(" (ended: {})", told.join(", ")) };
        writeln!(f, "episodes   {}{how}, {:.0} s", self.episodes.len(), self.seconds)?;
        let moved = 100.0 * self.moved_steps as f64 / self.steps.max(1) as f64;
        writeln!(
            f,
            "steps      {}, {moved:.0} % moved by the pilot; {} late (worst {:.0} ms)",
            self.steps, self.late_steps, self.worst_overrun_ms
        )?;
        if !self.took_ms.is_empty() {
            writeln!(
                f,
                "scores     {}, {:.0} ms each (median; p99 {:.0}); {} frames were replaced by newer ones",
                self.took_ms.len(),
                quantile(&self.took_ms, 0.5),
                quantile(&self.took_ms, 0.99),
                self.replaced
            )?;
        }
        let agreed: Vec<bool> = self.episodes.iter().filter_map(EpisodeReport::agrees).collect();
        if !agreed.is_empty() {
            let count = agreed.iter().filter(|agrees| **agrees).count();
            writeln!(f, "agreement  of model and person: {count} of {} episodes", agreed.len())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(end: EpisodeEnd, probability: f32, model_success: bool) -> EpisodeReport {
        EpisodeReport {
            end,
            steps: 40,
            seconds: 4.0,
            probability: Some(probability),
            streak: 2,
            model_success,
            at_target: true,
        }
    }

    #[test]
    fn the_summary_counts_ends_lateness_and_agreement() {
        let episodes = vec![
            report(EpisodeEnd::Model, 0.9, true),
            report(EpisodeEnd::PersonFailure, 0.8, true),
            report(EpisodeEnd::PersonSuccess, 0.8, true),
        ];
        assert_eq!(
            episodes[0].sentence(2),
            "success, says the model, after 4.0 s; p 0.900, 2/2 frames; the tool is at its target"
        );
        let summary = TeleopSummary {
            episodes,
            steps: 120,
            moved_steps: 60,
            took_ms: vec![3.0, 1.0, 2.0],
            ..TeleopSummary::default()
        };
        let text = summary.to_string();
        assert!(
            text.starts_with(
                "episodes   3 (ended: 1 by the model, 1 as a success by key, 1 as a failure by key)"
            ),
            "{text}"
        );
        assert!(text.contains("120, 50 % moved by the pilot; 0 late"), "{text}");
        assert!(text.contains("3, 2 ms each (median; p99 3)"), "{text}");
        assert!(text.ends_with("agreement  of model and person: 1 of 2 episodes\n"), "{text}");
    }
}
