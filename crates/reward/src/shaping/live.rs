//! A rule over scores that come one at a time, from a robot that moves.

use plaudit_core::{ObsRow, Score};

use super::temporal::{Rule, Thresholds};

/// A [`Rule`] while an episode runs: what frames were so far, and whether the newest one is a success.
#[derive(Debug, Clone)]
pub struct LiveRule {
    rule: Rule,
    thresholds: Thresholds,
    on: bool,
    streak: usize,
}

impl LiveRule {
    /// A rule for the scores of a model that has this threshold of its own.
    #[must_use]
    pub fn new(rule: Rule, own: Option<f32>) -> Self {
        let thresholds = rule.thresholds(own);
        Self { rule, thresholds, on: false, streak: 0 }
    }

    /// Forgets what was before: another episode begins.
    pub fn begin_episode(&mut self) {
        (self.on, self.streak) = (false, 0);
    }

    /// The score above which a frame counts.
    #[must_use]
    pub fn level(&self) -> f32 {
        self.thresholds.level()
    }

    /// Frames in a row that count, up to the newest one.
    #[must_use]
    pub fn streak(&self) -> usize {
        self.streak
    }

    /// How many frames in a row a success takes.
    #[must_use]
    pub fn hold(&self) -> usize {
        self.rule.hold.get()
    }

    /// Takes the score of the next frame; whether the task counts as solved there.
    pub fn take(&mut self, score: Score, obs: &ObsRow<'_>) -> bool {
        self.on = self.thresholds.decides(score).unwrap_or(self.on);
        let is_met = self.on && self.rule.guards.iter().all(|guard| guard.holds(obs));
        self.streak = if is_met { self.streak + 1 } else { 0 };
        self.streak >= self.hold()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use plaudit_core::{Obs, StatePart};

    use super::super::{Guard, Latch, SuccessThreshold};
    use super::*;

    fn taken(rule: &mut LiveRule, scores: &[f32], state: f32) -> Vec<bool> {
        let obs = Obs::from_state(1, vec![state]).unwrap();
        scores.iter().map(|score| rule.take(Score::new(*score).unwrap(), &obs.row(0))).collect()
    }

    #[test]
    fn a_success_holds_for_frames_in_a_row_of_one_episode() {
        let latch = Latch::Threshold(SuccessThreshold::At(0.5));
        let rule = Rule { latch, hold: NonZeroUsize::new(2).unwrap(), ..Rule::default() };
        let mut rule = LiveRule::new(rule, None);
        assert_eq!(taken(&mut rule, &[0.6, 0.5, 0.6, 0.7, 0.8], 0.0), [false, false, false, true, true]);
        rule.begin_episode();
        assert_eq!((taken(&mut rule, &[0.9], 0.0), rule.streak()), (vec![false], 1));
        assert_eq!((rule.level(), rule.hold()), (0.5, 2));
    }

    #[test]
    fn hysteresis_and_guards_count_live_as_well() {
        let latch = Latch::Hysteresis { enter: 0.7, leave: 0.3, longest_episode: 10 };
        let parts = [StatePart { name: "height".into(), range: 0..1 }];
        let guards = vec![Guard::parse("height > 0.1", &parts, 1).unwrap()];
        let mut rule = LiveRule::new(Rule { latch, guards, ..Rule::default() }, Some(0.9));
        assert_eq!(taken(&mut rule, &[0.5, 0.8, 0.5, 0.2, 0.5], 0.2), [false, true, true, false, false]);
        assert_eq!(taken(&mut rule, &[0.8], 0.0), [false], "too low");
        assert_eq!(rule.level(), 0.7);
    }
}
