//! Actions that were decided and not done yet: policies may decide several at once.

use plaudit_core::{Decision, End};

/// What a policy decided, and how much of it each row has done.
///
/// All rows decide together every `chunk` steps; a row that started a new episode in between decides for the
/// steps that are left until then.
#[derive(Debug, Clone, Default)]
pub(crate) struct ActionChunks {
    decision: Decision,
    /// Actions decided at once.
    chunk: usize,
    /// Steps since all rows decided.
    done: usize,
    /// Which action of its chunk each row is at.
    at: Vec<usize>,
    /// Which rows decide at the next step.
    due: Vec<bool>,
}

/// One step of the action chunks.
pub(crate) struct ChunkStep {
    /// `[B, action_width]`.
    pub(crate) actions: Vec<f32>,
    /// `[B, action_width]`, or empty.
    pub(crate) log_probs: Vec<f32>,
    /// `[B]`, or empty.
    pub(crate) values: Vec<f32>,
    /// `[B]`: who decided for this step.
    pub(crate) starts_chunk: Vec<bool>,
}

impl ActionChunks {
    /// Whether the policy has to be asked.
    pub(crate) fn is_due(&self) -> bool {
        self.done == self.chunk || self.due.iter().any(|&due| due)
    }

    /// Takes a new decision for the rows that are due.
    pub(crate) fn adopt(&mut self, decision: Decision, batch: usize, width: usize) {
        if self.done == self.chunk {
            self.chunk = decision.actions.len() / (batch * width).max(1);
            (self.at, self.due) = (vec![0; batch], vec![true; batch]);
            (self.decision, self.done) = (decision, 0);
            return;
        }
        let (chunk, old) = (self.chunk, &mut self.decision);
        for row in (0..batch).filter(|&row| self.due[row]) {
            take_row(&mut old.actions, &decision.actions, row, chunk * width);
            take_row(&mut old.log_probs, &decision.log_probs, row, chunk * width);
            take_row(&mut old.values, &decision.values, row, chunk);
            self.at[row] = 0;
        }
    }

    /// What to do now.
    pub(crate) fn next(&mut self, width: usize) -> ChunkStep {
        let starts_chunk = std::mem::replace(&mut self.due, vec![false; self.at.len()]);
        self.done += 1;
        if self.chunk == 1 {
            let Decision { actions, log_probs, values } = std::mem::take(&mut self.decision);
            return ChunkStep { actions, log_probs, values, starts_chunk };
        }
        let pick = |values: &[f32], width: usize| -> Vec<f32> {
            let rows = values.chunks_exact((self.chunk * width).max(1)).zip(&self.at);
            rows.flat_map(|(row, &at)| &row[at * width..(at + 1) * width]).copied().collect()
        };
        let actions = pick(&self.decision.actions, width);
        let log_probs = pick(&self.decision.log_probs, width);
        let values = pick(&self.decision.values, 1);
        self.at.iter_mut().for_each(|at| *at += 1);
        ChunkStep { actions, log_probs, values, starts_chunk }
    }

    /// Rows that start a new episode drop the rest of their chunk.
    pub(crate) fn forget(&mut self, ends: &[End]) {
        if self.done < self.chunk {
            self.due.iter_mut().zip(ends).for_each(|(due, end)| *due = end.is_end());
        }
    }
}

fn take_row(into: &mut [f32], from: &[f32], row: usize, width: usize) {
    if !into.is_empty() {
        into[row * width..(row + 1) * width].copy_from_slice(&from[row * width..(row + 1) * width]);
    }
}
