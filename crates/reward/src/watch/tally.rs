//! What happened since the last look: episodes as the reward and the truth saw them, and some frames that were rewarded.

use plaudit_core::{Obs, RewardColumn, Rng, Seed, Segment};

/// One finished episode.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct EpisodeSeen {
    /// Its steps.
    pub steps: usize,
    /// The step at which the reward first saw it solved.
    pub first_success: Option<usize>,
    /// How often the reward changed its mind from solved to not solved.
    pub lost: usize,
    /// Whether it ever was solved, by the environment's truth.
    pub truly_solved: bool,
    /// What it was paid by the learned reward in all.
    pub pay: f64,
}

/// A frame that was rewarded.
#[derive(Debug, Clone)]
pub struct Rewarded {
    /// What was seen: a batch of one.
    pub seen: Obs,
    /// Whether it shows success, by the environment's truth.
    pub truly: bool,
}

/// Gathers from segments, which may cut episodes anywhere.
#[derive(Debug)]
pub struct Tally {
    unfinished: Vec<Unfinished>,
    episodes: Vec<EpisodeSeen>,
    frames: Vec<Rewarded>,
    /// Rewarded frames that there were, of which some are kept.
    rewarded: u64,
    keep: usize,
    rng: Rng,
}

#[derive(Debug, Clone, Copy, Default)]
struct Unfinished {
    seen: EpisodeSeen,
    solved_now: bool,
}

impl Tally {
    /// Nothing yet. Of all frames that are rewarded, so many are kept by chance.
    #[must_use]
    pub fn new(keep: usize, seed: Seed) -> Self {
        let (unfinished, episodes, frames) = (Vec::new(), Vec::new(), Vec::new());
        Self { unfinished, episodes, frames, rewarded: 0, keep, rng: seed.purpose("watch").rng() }
    }

    /// Adds a segment that was paid by a reward that judges success; of others nothing is known.
    pub fn add(&mut self, segment: &Segment, column: &RewardColumn) {
        let Some(success) = &column.success else { return };
        self.unfinished.resize(segment.batch(), Unfinished::default());
        for t in 0..segment.steps() {
            for b in 0..segment.batch() {
                let at = segment.at(t, b);
                let (now, truly) = (success[at], segment.success[at]);
                let row = &mut self.unfinished[b];
                row.seen.steps += 1;
                row.seen.pay += f64::from(column.total[at]);
                row.seen.truly_solved |= truly;
                row.seen.lost += usize::from(row.solved_now && !now);
                row.solved_now = now;
                if now {
                    row.seen.first_success.get_or_insert(row.seen.steps);
                    self.keep(segment, (t, b), truly);
                }
                if segment.end[at].is_end() {
                    self.episodes.push(std::mem::take(&mut self.unfinished[b]).seen);
                }
            }
        }
    }

    /// Every rewarded frame is as likely to be kept as any other.
    fn keep(&mut self, segment: &Segment, (t, b): (usize, usize), truly: bool) {
        self.rewarded += 1;
        let place = match self.frames.len() < self.keep {
            true => self.frames.len(),
            false => self.rng.below(usize::try_from(self.rewarded).unwrap_or(usize::MAX)),
        };
        if place < self.keep {
            let kept = Rewarded { seen: segment.outcome(t, b).to_obs(), truly };
            match self.frames.get_mut(place) {
                Some(old) => *old = kept,
                None => self.frames.push(kept),
            }
        }
    }

    /// What was gathered since the last time; episodes that go on are carried over.
    pub fn take(&mut self) -> (Vec<EpisodeSeen>, Vec<Rewarded>) {
        self.rewarded = 0;
        (std::mem::take(&mut self.episodes), std::mem::take(&mut self.frames))
    }
}
