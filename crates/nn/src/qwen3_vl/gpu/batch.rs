//! What the GPU is told of a batch: where sequences begin, what their tokens are, and which rows are seen.

use super::super::processor::Inputs;
use super::memory::{List, Lists};

/// Sequences one after another, without filling.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) lists: Lists,
    /// All tokens.
    pub(super) tokens: usize,
    pub(super) sequences: usize,
    /// Tokens of the longest.
    pub(super) longest: usize,
    /// Of each token its place in the table, or the complement of a row that was seen.
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
    /// Rows of pictures, and the rows that were seen there.
    pub(super) shown: Rows,
    /// The same of last rows.
    pub(super) last_shown: Rows,
    pub(super) labels: List,
}

/// Rows that something is added to, and rows it is taken from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    pub(super) to: List,
    pub(super) from: List,
}

/// A sequence from a token on, and the rows its pictures became, in their order.
pub(super) struct Sequence<'a> {
    pub(super) inputs: &'a Inputs,
    pub(super) from: usize,
    /// Where to stop.
    pub(super) to: usize,
    pub(super) seen: Vec<usize>,
}

impl Batch {
    /// `is_shown` says which tokens stand for pieces of pictures.
    pub(super) fn new(sequences: &[Sequence<'_>], labels: &[u32], is_shown: impl Fn(u32) -> bool) -> Self {
        let (mut sources, mut positions) = (Vec::new(), Vec::new());
        let (mut starts, mut lengths, mut last) = (Vec::new(), Vec::new(), Vec::new());
        let (mut shown, mut last_shown) = (Vec::new(), Vec::new());
        for (i, sequence) in sequences.iter().enumerate() {
            let Sequence { inputs, from, to, seen } = sequence;
            starts.push(sources.len());
            lengths.push(to - from);
            positions.extend(inputs.positions.axes[*from..*to].iter().flatten().copied());
            let mut seen = seen.iter();
            for id in &inputs.ids[*from..*to] {
                match seen.as_slice().first().filter(|_| is_shown(*id)) {
                    Some(row) => {
                        shown.push((sources.len(), *row));
                        sources.push(!(*row as i32));
                        seen.next();
                    }
                    None => sources.push(*id as i32),
                }
            }
            let end = sources.len() - 1;
            last.push(end);
            last_shown.extend(shown.last().filter(|(row, _)| *row == end).map(|(_, from)| (i, *from)));
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
            shown: rows(&mut lists, &shown),
            last_shown: rows(&mut lists, &last_shown),
            labels: lists.add(labels.iter().map(|label| *label as usize)),
            lists,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::positions::Positions;
    use super::*;

    const SHOWN: u32 = 9;

    fn inputs(ids: &[u32]) -> Inputs {
        let axes = (0..ids.len() as i32).map(|at| [at, at + 100, at + 200]).collect();
        let positions = Positions { axes, next: ids.len() as i32 };
        Inputs { ids: ids.to_vec(), positions, visuals: Vec::new() }
    }

    #[test]
    fn sequences_lie_one_after_another_without_what_was_read() {
        let [long, short] = [inputs(&[1, 2, SHOWN, SHOWN, 5]), inputs(&[1, 7, SHOWN])];
        let sequences = [
            Sequence { inputs: &long, from: 1, to: 5, seen: vec![4, 5] },
            Sequence { inputs: &short, from: 1, to: 3, seen: vec![4] },
        ];
        let batch = Batch::new(&sequences, &[30, 40], |id| id == SHOWN);
        let list = |list: List| list.of(&batch.lists).to_vec();
        assert_eq!((batch.tokens, batch.sequences, batch.longest), (6, 2, 4));
        assert_eq!(list(batch.sources), [2, !4, !5, 5, 7, !4]);
        assert_eq!(list(batch.positions)[..3], [1, 101, 201]);
        assert_eq!(list(batch.positions)[12..15], [1, 101, 201], "the second begins where the first does");
        assert_eq!((list(batch.starts), list(batch.lengths)), (vec![0, 4], vec![4, 2]));
        assert_eq!(list(batch.last), [3, 5]);
        assert_eq!((list(batch.shown.to), list(batch.shown.from)), (vec![1, 2, 5], vec![4, 5, 4]));
        assert_eq!((list(batch.last_shown.to), list(batch.last_shown.from)), (vec![1], vec![4]));
        assert_eq!(list(batch.labels), [30, 40]);
    }
}
