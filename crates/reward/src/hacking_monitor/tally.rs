//! What happened since the last check: episodes as the reward and the ground truth saw them, and some rewarded frames.

use plaudit_core::{Obs, RewardColumn, Rng, Seed, Segment};

/// One finished episode.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct EpisodeSummary {
    /// Its steps.
    pub steps: usize,
    /// The step at which the reward first saw it solved.
    pub first_success: Option<usize>,
    /// How often the reward changed its mind from solved to not solved.
    pub lost: usize,
    /// Whether it ever was solved, by the environment's truth.
    pub true_success: bool,
    /// Its total learned reward.
    pub total_reward: f64,
}

/// A frame that was rewarded.
#[derive(Debug, Clone)]
pub struct RewardedFrame {
    /// What was seen: a batch of one.
    pub obs: Obs,
    /// Whether it shows success, by the environment's truth.
    pub true_success: bool,
}

/// Gathers from segments, which may cut episodes anywhere.
#[derive(Debug)]
pub struct Tally {
    unfinished: Vec<Unfinished>,
    episodes: Vec<EpisodeSummary>,
    frames: Vec<RewardedFrame>,
    /// Rewarded frames that there were, of which some are kept.
    rewarded: u64,
    keep: usize,
    rng: Rng,
}

#[derive(Debug, Clone, Copy, Default)]
struct Unfinished {
    summary: EpisodeSummary,
    solved_now: bool,
}

impl Tally {
    /// Nothing yet. Of all rewarded frames, so many are sampled at random.
    #[must_use]
    pub fn new(keep: usize, seed: Seed) -> Self {
        let (unfinished, episodes, frames) = (Vec::new(), Vec::new(), Vec::new());
        Self { unfinished, episodes, frames, rewarded: 0, keep, rng: seed.purpose("watch").rng() }
    }

    /// Adds a segment and its rewards, if the reward predicts success; others are left out.
    pub fn add(&mut self, segment: &Segment, column: &RewardColumn) {
        let Some(success) = &column.success else { return };
        self.unfinished.resize(segment.batch(), Unfinished::default());
        for t in 0..segment.steps() {
            for b in 0..segment.batch() {
                let at = segment.at(t, b);
                let (now, true_success) = (success[at], segment.success[at]);
                let row = &mut self.unfinished[b];
                row.summary.steps += 1;
                row.summary.total_reward += f64::from(column.total[at]);
                row.summary.true_success |= true_success;
                row.summary.lost += usize::from(row.solved_now && !now);
                row.solved_now = now;
                if now {
                    row.summary.first_success.get_or_insert(row.summary.steps);
                    self.keep(segment, (t, b), true_success);
                }
                if segment.end[at].is_end() {
                    self.episodes.push(std::mem::take(&mut self.unfinished[b]).summary);
                }
            }
        }
    }

    /// Every rewarded frame is as likely to be kept as any other.
    fn keep(&mut self, segment: &Segment, (t, b): (usize, usize), true_success: bool) {
        self.rewarded += 1;
        let place = match self.frames.len() < self.keep {
            true => self.frames.len(),
            false => self.rng.below(usize::try_from(self.rewarded).unwrap_or(usize::MAX)),
        };
        if place < self.keep {
            let kept = RewardedFrame { obs: segment.outcome(t, b).to_obs(), true_success };
            match self.frames.get_mut(place) {
                Some(old) => *old = kept,
                None => self.frames.push(kept),
            }
        }
    }

    /// What was gathered since the last time; episodes that go on are carried over.
    pub fn take(&mut self) -> (Vec<EpisodeSummary>, Vec<RewardedFrame>) {
        self.rewarded = 0;
        (std::mem::take(&mut self.episodes), std::mem::take(&mut self.frames))
    }
}
