//! The rule that rewards, as an audit counts by it: what is promised is about rewards, not about frames.
//!
//! A frame is rewarded when its score is above the threshold and was for `hold` frames; with hysteresis, when the score was
//! above the threshold once and has not been below `leave` since. A false alarm is a reward for a frame without success, unless
//! success comes within `grace` frames: a model that sees the goal reached two frames before the robot stands still is not wrong.
//!
//! For each episode there is one number, its *level*: a threshold below it raises a false alarm, and one at or above it does not.
//! The proof of [`super::guarantee`] needs no more than that.

use std::num::NonZeroUsize;

use plaudit_core::{Obs, Score};
use serde::{Deserialize, Serialize};

use super::ScoredEpisode;
use crate::shaping::{Latch, LiveRule, Rule, SuccessThreshold};

/// Which frames can be rewarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlarmFrames {
    /// Any frame: the reward is asked at every step.
    AnyFrame,
    /// The last frame: the reward is asked at the end of an episode.
    LastFrame,
}

/// The rule that rewards.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AuditRule {
    /// Which frames can be rewarded.
    pub alarm: AlarmFrames,
    /// Frames before success in which a reward is no false alarm.
    pub grace: usize,
    /// Frames in a row that must be above the threshold.
    pub hold: NonZeroUsize,
    /// Hysteresis: success lasts until the score is below this. Not set: until it is no longer above the threshold.
    pub leave: Option<f64>,
}

impl AuditRule {
    /// What is asked where nothing else is. In the frames of arriving, models see success before the environment does: see
    /// docs/audit.md for what was measured.
    pub const DEFAULT: Self =
        Self { alarm: AlarmFrames::AnyFrame, grace: 3, hold: NonZeroUsize::MIN, leave: None };

    /// The lowest threshold that this rule can have: success that ends below a score cannot begin below it.
    pub(super) fn lowest_threshold(&self) -> f64 {
        self.leave.unwrap_or(0.0)
    }

    /// Whether each frame is rewarded, at a threshold.
    pub(super) fn rewarded(&self, scores: &[f64], threshold: f64) -> Vec<bool> {
        let latch = match self.leave {
            None => Latch::Threshold(SuccessThreshold::At(threshold)),
            Some(leave) => {
                let (enter, longest_episode) = (threshold as f32, scores.len());
                Latch::Hysteresis { enter, leave: (leave as f32).min(enter), longest_episode }
            }
        };
        let mut rule = LiveRule::new(Rule { latch, guards: Vec::new(), hold: self.hold }, None);
        let Ok(nothing) = Obs::from_state(1, Vec::new()) else { return vec![false; scores.len()] };
        let mut take =
            |score: &f64| rule.take(Score::new(*score as f32).unwrap_or(Score::IMPOSSIBLE), &nothing.row(0));
        let all: Vec<bool> = scores.iter().map(&mut take).collect();
        all.iter().enumerate().map(|(frame, rewarded)| *rewarded && self.asks(frame, scores.len())).collect()
    }

    /// Whether a reward for each frame would be a false alarm.
    pub(super) fn would_be_false(&self, truth: &[bool]) -> Vec<bool> {
        let excused = |frame: usize| {
            let until = frame.saturating_add(self.grace).min(truth.len() - 1);
            truth[frame..=until].contains(&true)
        };
        (0..truth.len()).map(|frame| self.asks(frame, truth.len()) && !excused(frame)).collect()
    }

    /// The threshold below which an episode raises a false alarm; `None` of one that has no frame for it.
    pub(super) fn level(&self, episode: &ScoredEpisode) -> Option<f64> {
        let levels = self.frame_levels(&episode.scores());
        let counted =
            levels.into_iter().zip(self.would_be_false(&episode.truth)).filter(|(_, counts)| *counts);
        counted.map(|(level, _)| level).reduce(f64::max)
    }

    /// For each frame, the threshold below which it is rewarded; 0 where it never is.
    fn frame_levels(&self, scores: &[f64]) -> Vec<f64> {
        let (mut highest, leave) = (0.0f64, self.leave.map(|leave| f64::from(leave as f32)));
        let on = |score: &f64| {
            highest = match leave {
                None => *score,
                Some(leave) if *score < leave => 0.0,
                Some(_) => highest.max(*score),
            };
            highest
        };
        let on: Vec<f64> = scores.iter().map(on).collect();
        let hold = self.hold.get();
        let held = |frame: usize| match (frame + 1).checked_sub(hold) {
            Some(first) => on[first..=frame].iter().copied().fold(1.0, f64::min),
            None => 0.0,
        };
        (0..on.len()).map(held).collect()
    }

    fn asks(&self, frame: usize, frames: usize) -> bool {
        match self.alarm {
            AlarmFrames::AnyFrame => true,
            AlarmFrames::LastFrame => frame + 1 == frames,
        }
    }
}

/// A rule at a threshold, which decides about every frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RuleAt {
    /// The rule.
    pub rule: AuditRule,
    /// Scores above it count as success.
    pub threshold: f64,
}

impl RuleAt {
    /// The default rule without an excuse for arriving: frames alone.
    #[cfg(test)]
    pub(super) fn frames(threshold: f64) -> Self {
        Self { rule: AuditRule { grace: 0, ..AuditRule::DEFAULT }, threshold }
    }

    /// Whether the rule sees success in each frame, also in those that are not rewarded because others are.
    pub(super) fn seen(&self, episode: &ScoredEpisode) -> Vec<bool> {
        let rule = AuditRule { alarm: AlarmFrames::AnyFrame, ..self.rule };
        rule.rewarded(&episode.scores(), self.threshold)
    }

    /// The first frame with a false alarm.
    pub(super) fn first_false_alarm(&self, episode: &ScoredEpisode) -> Option<usize> {
        let rewarded = self.rule.rewarded(&episode.scores(), self.threshold);
        let would_be_false = self.rule.would_be_false(&episode.truth);
        rewarded.iter().zip(would_be_false).position(|(rewarded, is_false)| *rewarded && is_false)
    }
}

/// What of success is rewarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RewardedSuccess {
    /// Episodes with success that can be rewarded: at any frame, or at the last.
    pub episodes: usize,
    /// Those that are rewarded for it.
    pub rewarded_episodes: usize,
    /// Frames of success that can be rewarded.
    pub frames: usize,
    /// Those that are.
    pub rewarded_frames: usize,
}

impl RewardedSuccess {
    /// Counts at a threshold.
    pub(super) fn at(RuleAt { rule, threshold }: RuleAt, episodes: &[ScoredEpisode]) -> Self {
        let mut all = Self { episodes: 0, rewarded_episodes: 0, frames: 0, rewarded_frames: 0 };
        for episode in episodes {
            let rewarded = rule.rewarded(&episode.scores(), threshold);
            let asked = |frame: &usize| episode.truth[*frame] && rule.asks(*frame, episode.truth.len());
            let successes: Vec<usize> = (0..episode.truth.len()).filter(asked).collect();
            let seen = successes.iter().filter(|frame| rewarded[**frame]).count();
            all.episodes += usize::from(!successes.is_empty());
            all.rewarded_episodes += usize::from(seen > 0);
            all.frames += successes.len();
            all.rewarded_frames += seen;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use plaudit_core::{Rng, Seed};

    use super::super::guarantee::guaranteed_threshold;
    use super::*;

    fn rules() -> Vec<AuditRule> {
        let mut rules = Vec::new();
        for alarm in [AlarmFrames::AnyFrame, AlarmFrames::LastFrame] {
            for (grace, hold) in [(0, 1), (3, 1), (0, 3), (2, 2)] {
                for leave in [None, Some(0.4)] {
                    rules.push(AuditRule { alarm, grace, hold: NonZeroUsize::new(hold).unwrap(), leave });
                }
            }
        }
        rules
    }

    /// An episode that wanders, arrives or not, and may lose what it had: frames of one episode look alike.
    fn wandering(rng: &mut Rng) -> ScoredEpisode {
        let frames = 8 + rng.below(12);
        let (arrives, lost) = (5 + rng.below(20), 12 + rng.below(20));
        let mut logit = -3.0 + rng.normal();
        let (mut logits, mut truth) = (Vec::new(), Vec::new());
        for frame in 0..frames {
            let solved = frame >= arrives && frame < lost;
            let aim = if frame + 2 >= arrives && frame < lost { 2.5 } else { -2.5 };
            logit += 0.5 * (aim - logit) + 0.8 * rng.normal();
            logits.push(logit);
            truth.push(solved);
        }
        ScoredEpisode { name: String::new(), logits, truth }
    }

    fn falsely_rewarded(rule: &AuditRule, episode: &ScoredEpisode, threshold: f64) -> bool {
        let rewarded = rule.rewarded(&episode.scores(), threshold);
        rewarded.iter().zip(rule.would_be_false(&episode.truth)).any(|(rewarded, counts)| *rewarded && counts)
    }

    /// The level of an episode is what the rule of training decides, threshold by threshold.
    #[test]
    fn a_threshold_below_the_level_raises_an_alarm_and_no_other_does() {
        let mut rng = Seed::new(3).purpose("levels").rng();
        for rule in rules() {
            for _ in 0..200 {
                let episode = wandering(&mut rng);
                let level = rule.level(&episode);
                let thresholds = episode.scores().into_iter().chain([0.0, 0.5, 0.999]);
                for threshold in thresholds.filter(|threshold| *threshold >= rule.lowest_threshold()) {
                    let raised = falsely_rewarded(&rule, &episode, threshold);
                    assert_eq!(
                        raised,
                        level.is_some_and(|level| level > threshold),
                        "{rule:?} at {threshold}: {episode:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn frames_of_arriving_are_excused_and_others_are_not() {
        let rule = |grace| AuditRule { grace, ..AuditRule::DEFAULT };
        let truth = [false, false, false, false, true, true, false];
        assert_eq!(rule(0).would_be_false(&truth), [true, true, true, true, false, false, true]);
        assert_eq!(rule(2).would_be_false(&truth), [true, true, false, false, false, false, true]);
        assert_eq!(rule(usize::MAX).would_be_false(&truth), [false, false, false, false, false, false, true]);
        let last = AuditRule { alarm: AlarmFrames::LastFrame, ..rule(3) };
        assert_eq!(last.would_be_false(&truth), [false, false, false, false, false, false, true]);
    }

    /// The promise, through every rule: of thresholds picked on ever other episodes, at most 5 % are exceeded more often than
    /// promised. The rate of each is that of 4,000 other episodes, whose own deviation (0.0034 at 5 %) is allowed for.
    #[test]
    fn the_promised_rate_holds_over_resplits_through_every_rule() {
        let mut rng = Seed::new(4).purpose("population").rng();
        let population: Vec<ScoredEpisode> = (0..4000).map(|_| wandering(&mut rng)).collect();
        for rule in rules() {
            let levels: Vec<f64> = population.iter().filter_map(|episode| rule.level(episode)).collect();
            let broken = broken_promises(&levels, rule.lowest_threshold(), 60, 2000);
            // 2,000 splits leave the share a standard deviation of 0.005.
            assert!(broken < 0.05 + 3.0 * 0.005, "{broken} of the promises of {rule:?} were broken");
        }
    }

    /// Episodes that a small network scored; see the script beside the file.
    fn real_episodes() -> Vec<ScoredEpisode> {
        let logit = |text: &str| {
            let score = (text.parse::<f64>().unwrap() / 10_000.0).clamp(1e-4, 1.0 - 1e-4);
            (score / (1.0 - score)).ln()
        };
        let episode = |line: &str| {
            let (labels, scores) = line.split_once(' ').unwrap();
            let truth: Vec<bool> = labels.chars().map(|label| label == '1').collect();
            let logits: Vec<f64> = scores.split(' ').map(logit).collect();
            assert_eq!(truth.len(), logits.len());
            ScoredEpisode { name: String::new(), logits, truth }
        };
        include_str!("../../tests/audit_scores/scores.txt").lines().map(episode).collect()
    }

    /// The same for scores of a real model on real episodes, which samples are drawn from.
    #[test]
    fn the_promised_rate_holds_over_resplits_of_real_episodes() {
        let episodes = real_episodes();
        assert_eq!(episodes.len(), 200);
        for rule in rules() {
            let levels: Vec<f64> = episodes.iter().filter_map(|episode| rule.level(episode)).collect();
            let broken = broken_promises(&levels, rule.lowest_threshold(), 60, 2000);
            assert!(broken < 0.05 + 3.0 * 0.005, "{broken} of the promises of {rule:?} were broken");
        }
    }

    /// The share of promises (at most 5 % of episodes, at 95 %) that do not hold in the population that samples are of.
    fn broken_promises(population: &[f64], lowest: f64, episodes: usize, splits: u64) -> f64 {
        let is_broken = |split: &u64| {
            let mut rng = Seed::new(5).purpose("resplit").index(*split).rng();
            let sample: Vec<f64> = (0..episodes).map(|_| population[rng.below(population.len())]).collect();
            let threshold = guaranteed_threshold(&sample, 0.05, 0.95).unwrap().threshold.max(lowest);
            let above = population.iter().filter(|level| **level > threshold).count();
            above as f64 > 0.05 * population.len() as f64
        };
        (0..splits).filter(is_broken).count() as f64 / splits as f64
    }

    #[test]
    fn what_is_kept_of_success_is_counted_by_reward() {
        let episode = |logits: &[f64], truth: &[bool]| ScoredEpisode {
            name: String::new(),
            logits: logits.to_vec(),
            truth: truth.to_vec(),
        };
        let episodes = [
            episode(&[-1.0, 2.0, 2.0, 2.0], &[false, true, true, true]),
            episode(&[-1.0, 2.0, -2.0], &[false, true, true]),
            episode(&[1.0, 1.0], &[false, false]),
        ];
        let rule = AuditRule { grace: 0, ..AuditRule::DEFAULT };
        let kept = RewardedSuccess::at(RuleAt { rule, threshold: 0.5 }, &episodes);
        assert_eq!((kept.episodes, kept.rewarded_episodes, kept.frames, kept.rewarded_frames), (2, 2, 5, 4));
        let held = AuditRule { hold: NonZeroUsize::new(2).unwrap(), ..rule };
        let kept = RewardedSuccess::at(RuleAt { rule: held, threshold: 0.5 }, &episodes);
        assert_eq!((kept.episodes, kept.rewarded_episodes, kept.rewarded_frames), (2, 1, 2));
        let last = AuditRule { alarm: AlarmFrames::LastFrame, ..rule };
        let kept = RewardedSuccess::at(RuleAt { rule: last, threshold: 0.5 }, &episodes);
        assert_eq!((kept.episodes, kept.rewarded_episodes, kept.frames, kept.rewarded_frames), (2, 1, 2, 1));
    }
}
