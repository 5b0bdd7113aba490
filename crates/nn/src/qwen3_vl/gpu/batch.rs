//! The index lists of a batch: where sequences begin, what their tokens are, and which rows are visual tokens.

use super::super::processor::Inputs;
use super::lists::{List, Lists};

/// Sequences one after another, without padding.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) lists: Lists,
    /// All tokens.
    pub(super) tokens: usize,
    pub(super) sequences: usize,
    /// Tokens of the longest.
    pub(super) longest: usize,
    /// Of each token its row in the embedding table, or the complement of its row in the visual embeddings.
    pub(super) sources: List,
    /// Of each token time, row and column.
    pub(super) positions: List,
    /// Of each sequence its first row and its length.
    pub(super) starts: List,
    pub(super) lengths: List,
    /// The last row of each sequence; and as sequences of one row each.
    pub(super) last: List,
    pub(super) single_starts: List,
    pub(super) single_lengths: List,
    /// Rows of visual tokens, and their rows in the visual embeddings.
    pub(super) visual_tokens: Rows,
    /// The same of last rows.
    pub(super) last_visual_tokens: Rows,
    pub(super) labels: List,
}

/// Rows that something is added to, and rows it is taken from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    pub(super) to: List,
    pub(super) from: List,
}

/// A sequence from a token on, and the rows of its visual embeddings, in their order.
pub(super) struct Sequence<'a> {
    pub(super) inputs: &'a Inputs,
    pub(super) from: usize,
    /// Where to stop.
    pub(super) to: usize,
    pub(super) visual_embeds: Vec<usize>,
}

impl Batch {
    /// `is_visual_token` says which tokens stand for pieces of images and videos.
    pub(super) fn new(
        sequences: &[Sequence<'_>],
        labels: &[u32],
        is_visual_token: impl Fn(u32) -> bool,
    ) -> Self {
        let (mut sources, mut positions) = (Vec::new(), Vec::new());
        let (mut starts, mut lengths, mut last) = (Vec::new(), Vec::new(), Vec::new());
        let (mut visual_tokens, mut last_visual_tokens) = (Vec::new(), Vec::new());
        for (i, sequence) in sequences.iter().enumerate() {
            let Sequence { inputs, from, to, visual_embeds } = sequence;
            starts.push(sources.len());
            lengths.push(to - from);
            positions.extend(inputs.positions.axes[*from..*to].iter().flatten().copied());
            let mut visual_embeds = visual_embeds.iter();
            for id in &inputs.ids[*from..*to] {
                match visual_embeds.as_slice().first().filter(|_| is_visual_token(*id)) {
                    Some(row) => {
                        visual_tokens.push((sources.len(), *row));
                        sources.push(!(*row as i32));
                        visual_embeds.next();
                    }
                    None => sources.push(*id as i32),
                }
            }
            let end = sources.len() - 1;
            last.push(end);
            last_visual_tokens
                .extend(visual_tokens.last().filter(|(row, _)| *row == end).map(|(_, from)| (i, *from)));
        }
        let mut lists = Lists::default();
        let count = sequences.len();
        let rows = |lists: &mut Lists, rows: &[(usize, usize)]| Rows {
            to: lists.add(rows.iter().map(|row| row.0)),
            from: lists.add(rows.iter().map(|row| row.1)),
        };
        Self {
            tokens: sources.len(),
            sequences: count,
            longest: lengths.iter().copied().max().unwrap_or(0),
            sources: lists.add_ints(sources),
            positions: lists.add_ints(positions),
            starts: lists.add(starts),
            lengths: lists.add(lengths),
            last: lists.add(last),
            single_starts: lists.add(0..count),
            single_lengths: lists.add(std::iter::repeat_n(1, count)),
            visual_tokens: rows(&mut lists, &visual_tokens),
            last_visual_tokens: rows(&mut lists, &last_visual_tokens),
            labels: lists.add(labels.iter().map(|label| *label as usize)),
            lists,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::positions::Positions;
    use super::*;

    const VISUAL: u32 = 9;

    fn inputs(ids: &[u32]) -> Inputs {
        let axes = (0..ids.len() as i32).map(|at| [at, at + 100, at + 200]).collect();
        let positions = Positions { axes, next: ids.len() as i32 };
        Inputs { ids: ids.to_vec(), positions, visuals: Vec::new() }
    }

    #[test]
    fn sequences_are_packed_without_the_cached_prefix() {
        let [long, short] = [inputs(&[1, 2, VISUAL, VISUAL, 5]), inputs(&[1, 7, VISUAL])];
        let sequences = [
            Sequence { inputs: &long, from: 1, to: 5, visual_embeds: vec![4, 5] },
            Sequence { inputs: &short, from: 1, to: 3, visual_embeds: vec![4] },
        ];
        let batch = Batch::new(&sequences, &[30, 40], |id| id == VISUAL);
        let list = |list: List| list.of(&batch.lists).to_vec();
        assert_eq!((batch.tokens, batch.sequences, batch.longest), (6, 2, 4));
        assert_eq!(list(batch.sources), [2, !4, !5, 5, 7, !4]);
        assert_eq!(list(batch.positions)[..3], [1, 101, 201]);
        assert_eq!(list(batch.positions)[12..15], [1, 101, 201], "the second begins where the first does");
        assert_eq!((list(batch.starts), list(batch.lengths)), (vec![0, 4], vec![4, 2]));
        assert_eq!(list(batch.last), [3, 5]);
        assert_eq!(
            (list(batch.visual_tokens.to), list(batch.visual_tokens.from)),
            (vec![1, 2, 5], vec![4, 5, 4])
        );
        assert_eq!(
            (list(batch.last_visual_tokens.to), list(batch.last_visual_tokens.from)),
            (vec![1], vec![4])
        );
        assert_eq!(list(batch.labels), [30, 40]);
    }
}
