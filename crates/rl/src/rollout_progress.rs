//! How far environments are in their episodes: what a rollout counts as steps go by, whoever takes them.

use std::collections::VecDeque;
use std::sync::Arc;

use plaudit_core::{ActionHistory, End, Obs};

use crate::{Decisions, Episode, Episodes, RolloutState};

/// What is known of unfinished episodes. The rollout that steps environments counts with it, and so does a learner whose
/// environments are elsewhere, from the segments that arrive: both come to the same [`RolloutState`].
#[derive(Debug, Clone)]
pub(crate) struct RolloutProgress {
    /// Steps taken.
    steps: u64,
    /// The newest observations before the present one, oldest first, at most as many as asked for and as the oldest
    /// episode has.
    context: VecDeque<Arc<Obs>>,
    context_limit: usize,
    /// Steps each row has taken in its episode.
    elapsed: Vec<usize>,
    /// What it did in them.
    past: Vec<ActionHistory>,
    pub(crate) episodes: Episodes,
}

impl RolloutProgress {
    /// All environments at the start of an episode.
    pub(crate) fn new(num_envs: usize, context_limit: usize) -> Self {
        Self {
            steps: 0,
            context: VecDeque::new(),
            context_limit,
            elapsed: vec![0; num_envs],
            past: vec![ActionHistory::default(); num_envs],
            episodes: Episodes::new(num_envs),
        }
    }

    /// Environments where they were.
    pub(crate) fn at(state: RolloutState, context_limit: usize, action_width: usize) -> Self {
        let RolloutState { steps, past, episodes, context, .. } = state;
        Self {
            steps,
            context: context.into(),
            context_limit,
            elapsed: past.iter().map(|past| past.actions.len() / action_width.max(1)).collect(),
            past,
            episodes: Episodes::in_progress(episodes),
        }
    }

    /// All environments at the start of an episode again, and steps counted on.
    pub(crate) fn anew(&self) -> Self {
        Self { steps: self.steps, ..Self::new(self.past.len(), self.context_limit) }
    }

    /// One row at the start of an episode of other environments.
    pub(crate) fn begin_anew(&mut self, row: usize) {
        self.elapsed[row] = 0;
        self.past[row] = ActionHistory::default();
        self.episodes.begin_anew(row);
    }

    /// Where the environments are.
    pub(crate) fn state(&self) -> RolloutState {
        RolloutState {
            steps: self.steps,
            past: self.past.clone(),
            episodes: self.episodes.open().to_vec(),
            context: self.context.iter().cloned().collect(),
            solved: vec![false; self.past.len()],
        }
    }

    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    pub(crate) fn elapsed(&self) -> &[usize] {
        &self.elapsed
    }

    pub(crate) fn context(&self) -> impl Iterator<Item = &Arc<Obs>> {
        self.context.iter()
    }

    /// A step was taken: what the rows did, whether their episodes ended, and what had been seen before it.
    pub(crate) fn record(&mut self, actions: &[f32], end: &[End], seen: impl FnOnce() -> Arc<Obs>) {
        self.record_actions(actions, end);
        if self.context_limit > 0 {
            self.context.push_back(seen());
        }
        self.forget_context();
    }

    /// A segment was played elsewhere. Returns the episodes that it finished, in the order of steps and rows.
    pub(crate) fn record_segment(
        &mut self,
        segment: &plaudit_core::Segment,
        decisions: &Decisions,
    ) -> Vec<Episode> {
        let (steps, batch) = (segment.steps(), segment.batch());
        let mut finished = Vec::new();
        for t in 0..steps {
            let end = &segment.end[t * batch..(t + 1) * batch];
            self.record_actions(&segment.actions[t], end);
            for row in 0..batch {
                let at = t * batch + row;
                let is = |flags: &[bool]| flags.get(at).copied().unwrap_or(false);
                finished.extend(self.episodes.count(
                    row,
                    segment.env_reward[at],
                    segment.success[at],
                    is(&decisions.intervened),
                    is(&decisions.invalid),
                    segment.end[at],
                ));
            }
            if steps - t <= self.context_limit {
                self.context.push_back(Arc::new(segment.obs[t].clone()));
            }
        }
        self.forget_context();
        finished
    }

    fn record_actions(&mut self, actions: &[f32], end: &[End]) {
        self.steps += 1;
        let rows = actions.chunks_exact((actions.len() / end.len().max(1)).max(1));
        for (((elapsed, past), end), action) in self.elapsed.iter_mut().zip(&mut self.past).zip(end).zip(rows)
        {
            if end.is_end() {
                *elapsed = 0;
                past.episode += 1;
                past.actions.clear();
            } else {
                *elapsed += 1;
                past.actions.extend_from_slice(action);
            }
        }
    }

    /// Nothing needs what is older than the oldest episode.
    fn forget_context(&mut self) {
        let oldest = self.elapsed.iter().copied().max().unwrap_or(0);
        while self.context.len() > self.context_limit.min(oldest) {
            self.context.pop_front();
        }
    }
}

impl RolloutState {
    /// The state after a segment that was played from this one.
    #[must_use]
    pub fn after(
        self,
        segment: &plaudit_core::Segment,
        decisions: &Decisions,
        context: usize,
        action_width: usize,
    ) -> Self {
        let solved = self.solved.clone();
        let mut progress = RolloutProgress::at(self, context, action_width);
        progress.record_segment(segment, decisions);
        Self { solved, ..progress.state() }
    }
}
