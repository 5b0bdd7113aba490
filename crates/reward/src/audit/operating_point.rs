//! The threshold: the lowest one with a guarantee, or what is left where nothing can be guaranteed.

use serde::Serialize;

use super::guarantee::{false_alarm_bound, guaranteed_threshold, levels};
use super::{
    AlarmFrames, AuditRule, AuditSettings, Guarantee, RewardedSuccess, RuleAt, ScoredEpisode, percent,
};
use crate::metrics::best_threshold;

/// The threshold, and its guarantee.
#[derive(Debug, Clone, Serialize)]
pub struct OperatingPoint {
    /// For scores as the model gives them after this audit.
    pub threshold: f64,
    /// What logits are divided by then: the fitted temperature where it is stored, else the checkpoint's own.
    pub temperature: f64,
    /// The same decisions for scores at the fitted temperature.
    pub at_fitted_temperature: Option<ThresholdAt>,
    /// The rule that rewards, which false alarms are counted by.
    #[serde(flatten)]
    pub rule: AuditRule,
    /// The share of episodes that may raise a false alarm.
    pub max_fpr: f64,
    /// How sure that must be.
    pub confidence: f64,
    /// Who chose the threshold.
    pub chosen: ThresholdSource,
    /// What is guaranteed.
    pub guarantee: Option<Guarantee>,
    /// Why there is no guarantee.
    pub refused: Option<String>,
    /// Episodes that can raise an alarm, those that do at the threshold, and the rate that this bounds.
    pub alarms: FalseAlarms,
    /// What of success is rewarded at the threshold.
    pub rewarded_success: RewardedSuccess,
}

/// A threshold, and the temperature of the scores it is for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ThresholdAt {
    /// Scores above it count as success.
    pub threshold: f64,
    /// What logits are divided by.
    pub temperature: f64,
}

/// Who chose a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ThresholdSource {
    /// The guarantee.
    Guarantee,
    /// Whoever asked for the audit.
    Requested,
    /// The checkpoint, before.
    Checkpoint,
    /// The highest F1 on this data: nothing better was given.
    BestF1,
}

/// Episodes with false alarms.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct FalseAlarms {
    /// Episodes that can raise one.
    pub episodes: usize,
    /// Those that do.
    pub raised: usize,
    /// Upper bound of the rate with the confidence that was asked for.
    pub bound: f64,
}

/// What a threshold is chosen from.
pub(super) struct ThresholdChoice<'a> {
    /// With logits divided by the temperature.
    pub(super) episodes: &'a [ScoredEpisode],
    /// Of every frame, at the temperature.
    pub(super) scores: &'a [f64],
    /// Whether every frame shows success.
    pub(super) truth: &'a [bool],
    /// What logits are divided by.
    pub(super) temperature: f64,
    /// The temperature that calibrates best.
    pub(super) fitted: Option<f64>,
    /// The checkpoint's own threshold, at the temperature.
    pub(super) own: Option<f64>,
}

impl OperatingPoint {
    /// The threshold: with a guarantee if there can be one.
    pub(super) fn choose(from: &ThresholdChoice<'_>, settings: &AuditSettings) -> Self {
        let AuditSettings { max_fpr, confidence, rule, .. } = *settings;
        let levels = levels(from.episodes, &rule);
        let asked = settings.threshold.map(as_f32);
        let guaranteed = match asked {
            Some(threshold) => guarantee_at(threshold, &levels, max_fpr, confidence),
            None => guaranteed_threshold(&levels, max_fpr, confidence).map_err(|error| error.to_string()),
        };
        let best = || best_threshold(from.scores, from.truth).unwrap_or(0.5);
        let (threshold, chosen) = match (&guaranteed, asked, from.own) {
            (_, Some(asked), _) => (asked, ThresholdSource::Requested),
            (Ok(guaranteed), None, _) => (guaranteed.threshold, ThresholdSource::Guarantee),
            (Err(_), None, Some(own)) => (as_f32(own), ThresholdSource::Checkpoint),
            (Err(_), None, None) => (as_f32(best()), ThresholdSource::BestF1),
        };
        let threshold = threshold.max(as_f32(rule.lowest_threshold())); // a higher one raises fewer alarms
        let guarantee = guaranteed.as_ref().ok().map(|guaranteed| Guarantee {
            threshold,
            rule: Some(rule),
            alarms: FalseAlarms::at(threshold, &levels, confidence).raised,
            ..*guaranteed
        });
        Self {
            threshold,
            temperature: from.temperature,
            at_fitted_temperature: from.fitted.map(|fitted| ThresholdAt {
                threshold: at_temperature(threshold, from.temperature, fitted),
                temperature: fitted,
            }),
            rule,
            max_fpr,
            confidence,
            chosen,
            guarantee,
            refused: guaranteed.err(),
            alarms: FalseAlarms::at(threshold, &levels, confidence),
            rewarded_success: RewardedSuccess::at(RuleAt { rule, threshold }, from.episodes),
        }
    }

    /// The rule at the threshold.
    pub(super) fn rule_at(&self) -> RuleAt {
        RuleAt { rule: self.rule, threshold: self.threshold }
    }

    /// What a false alarm is, in words.
    #[must_use]
    pub fn false_alarm_text(&self) -> String {
        let AuditRule { alarm, grace, hold, leave } = self.rule;
        let rewarded = match alarm {
            AlarmFrames::AnyFrame => "a frame without success is rewarded",
            AlarmFrames::LastFrame => "the last frame is rewarded and shows no success",
        };
        let excused = match (alarm, grace) {
            (AlarmFrames::LastFrame, _) | (_, 0) => String::new(),
            (AlarmFrames::AnyFrame, 1) => ", unless success comes with the next".into(),
            (AlarmFrames::AnyFrame, grace) => format!(", unless success comes within {grace} frames"),
        };
        let held = match hold.get() {
            1 => String::new(),
            hold => format!(", after {hold} frames in a row above the threshold"),
        };
        let left = leave.map_or(String::new(), |leave| format!(", until a score below {leave}"));
        format!("{rewarded}{held}{left}{excused}")
    }

    /// The guarantee in words.
    #[must_use]
    pub fn guarantee_text(&self) -> String {
        let FalseAlarms { episodes, raised, bound } = self.alarms;
        match (&self.guarantee, &self.refused) {
            (Some(_), _) => format!(
                "at most {} of new episodes raise a false alarm, with confidence {} ({raised} of {episodes} did here)",
                percent(self.max_fpr),
                percent(self.confidence)
            ),
            (None, Some(_)) => format!(
                "no guarantee; {raised} of {episodes} episodes raise a false alarm, so at most {} of new ones do, \
                 with confidence {}",
                percent(bound),
                percent(self.confidence)
            ),
            (None, None) => "no guarantee".into(),
        }
    }
}

impl FalseAlarms {
    fn at(threshold: f64, levels: &[f64], confidence: f64) -> Self {
        let raised = levels.iter().filter(|level| **level > threshold).count();
        let episodes = levels.len();
        Self { episodes, raised, bound: false_alarm_bound(raised, episodes, confidence) }
    }
}

/// A threshold that was fixed beforehand needs no picking: what was seen bounds it.
fn guarantee_at(threshold: f64, levels: &[f64], max_rate: f64, confidence: f64) -> Result<Guarantee, String> {
    let FalseAlarms { episodes, raised, bound } = FalseAlarms::at(threshold, levels, confidence);
    if bound <= max_rate {
        return Ok(Guarantee { threshold, max_rate, confidence, episodes, alarms: raised, rule: None });
    }
    Err(format!(
        "at threshold {threshold}, {raised} of {episodes} episodes raise a false alarm: that bounds the rate by {bound:.4} at \
         most, and {max_rate} is asked for"
    ))
}

/// A threshold as it is applied: scores are compared in 32 bits.
fn as_f32(threshold: f64) -> f64 {
    f64::from(threshold as f32)
}

/// A threshold on scores at one temperature, for scores at another: it parts the same logits.
pub(super) fn at_temperature(threshold: f64, from: f64, to: f64) -> f64 {
    if threshold <= 0.0 || threshold >= 1.0 {
        return threshold;
    }
    let logit = (threshold / (1.0 - threshold)).ln() * from / to;
    1.0 / (1.0 + (-logit).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_parts_the_same_logits_at_any_temperature() {
        let moved = at_temperature(0.8, 1.0, 2.0);
        let logit = (0.8f64 / 0.2).ln();
        assert!((moved - 1.0 / (1.0 + (-logit / 2.0).exp())).abs() < 1e-12);
        assert!((at_temperature(moved, 2.0, 1.0) - 0.8).abs() < 1e-12);
        assert_eq!((at_temperature(1.0, 1.0, 3.0), at_temperature(0.0, 1.0, 3.0)), (1.0, 0.0));
    }
}
