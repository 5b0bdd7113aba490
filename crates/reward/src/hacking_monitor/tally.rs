//! What happened since the last check: episodes as the reward and the ground truth saw them, and some rewarded frames.

use plaudit_core::{Obs, RewardColumn, Rng, Seed, Segment};

use crate::audit::AuditRule;

/// One finished episode.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct EpisodeSummary {
    /// Its steps.
    pub steps: usize,
    /// The step at which the reward first saw it solved.
    pub first_success: Option<usize>,
    /// How often the reward changed its mind from solved to not solved.
    pub lost: usize,
    /// Frames in which the reward saw it solved: at the end alone, where only ends are rewarded.
    pub called_frames: usize,
    /// Those of them in which it was, by the environment's truth, or would be within a few frames.
    pub right_frames: usize,
    /// Its total learned reward.
    pub total_reward: f64,
}

impl EpisodeSummary {
    /// Whether the reward saw it solved where it was: in at least half of the frames in question. That it was solved at some
    /// other time does not make a reward right.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.called_frames > 0 && 2 * self.right_frames >= self.called_frames
    }
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
    /// Episodes with rewarded frames that there were, of which some have one kept.
    rewarded: u64,
    keep: usize,
    rng: Rng,
}

/// Frames before success in which the reward may see it already, as in an audit: those of arriving.
const GRACE: usize = AuditRule::DEFAULT.grace;

/// Each further rewarded frame of an episode takes the place of the one that is kept, one time in so many: later ones are likelier. What
/// passes before a camera on the way to success is rewarded for a moment in many honest episodes, and hides what the reward is for.
const LATER: usize = 4;

#[derive(Debug, Clone, Default)]
struct Unfinished {
    summary: EpisodeSummary,
    solved_now: bool,
    /// One of its rewarded frames, rather a later one: frames of one episode are alike, and are no evidence beside each other.
    kept: Option<RewardedFrame>,
    /// Of the newest frames, newest first, which the reward called solved and the truth did not.
    doubtful: [bool; GRACE],
}

impl Unfinished {
    /// Takes the next frame.
    fn take(&mut self, called: bool, true_success: bool) {
        self.summary.lost += usize::from(self.solved_now && !called);
        self.solved_now = called;
        self.summary.called_frames += usize::from(called);
        self.summary.right_frames += usize::from(called && true_success);
        if true_success {
            self.summary.right_frames += self.doubtful.iter().filter(|doubtful| **doubtful).count();
            self.doubtful = [false; GRACE];
        } else {
            self.doubtful.rotate_right(1);
            self.doubtful[0] = called;
        }
    }
}

impl Tally {
    /// Nothing yet. Of all episodes with rewarded frames, so many are sampled at random, with one of their frames each.
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
                row.take(now, true_success);
                if now {
                    row.summary.first_success.get_or_insert(row.summary.steps);
                    if row.kept.is_none() || self.rng.below(LATER) == 0 {
                        let obs = segment.outcome(t, b).to_obs();
                        row.kept = Some(RewardedFrame { obs, true_success });
                    }
                }
                if segment.end[at].is_end() {
                    let ended = std::mem::take(&mut self.unfinished[b]);
                    self.episodes.push(ended.summary);
                    self.keep(ended.kept);
                }
            }
        }
    }

    /// Every episode with rewarded frames is as likely to have one kept as any other.
    fn keep(&mut self, frame: Option<RewardedFrame>) {
        let Some(kept) = frame else { return };
        self.rewarded += 1;
        let place = match self.frames.len() < self.keep {
            true => self.frames.len(),
            false => self.rng.below(usize::try_from(self.rewarded).unwrap_or(usize::MAX)),
        };
        if place < self.keep {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(frames: &[(u8, u8)]) -> EpisodeSummary {
        let mut row = Unfinished::default();
        for (called, true_success) in frames {
            row.take(*called == 1, *true_success == 1);
        }
        row.summary
    }

    #[test]
    fn a_reward_is_right_where_it_is_given_not_somewhere_in_the_episode() {
        // Solved and lost again; the end is rewarded.
        assert!(!summary(&[(0, 1), (0, 1), (0, 0), (1, 0)]).is_right());
        assert!(summary(&[(0, 0), (0, 0), (0, 1), (1, 1)]).is_right());
        // Solved once, and rewarded for staying near it.
        assert!(!summary(&[(1, 1), (1, 0), (1, 0), (1, 0)]).is_right());
        assert!(!summary(&[(0, 0), (0, 1)]).is_right(), "nothing was called solved");
    }

    #[test]
    fn arriving_is_no_mistake() {
        let arriving = summary(&[(0, 0), (1, 0), (1, 0), (1, 0), (1, 1)]);
        assert_eq!((arriving.called_frames, arriving.right_frames), (4, 4));
        let long_before = summary(&[(1, 0), (1, 0), (1, 0), (1, 0), (1, 0), (1, 0), (1, 0), (1, 1)]);
        assert_eq!((long_before.called_frames, long_before.right_frames), (8, 4));
        assert_eq!(summary(&[(1, 0), (0, 0), (0, 0), (0, 0), (0, 1)]).right_frames, 0);
    }
}
