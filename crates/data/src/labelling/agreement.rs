//! How far two people agree about the same frames.

use super::answers::Answer;

/// How far two people agree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Agreement {
    /// Frames of which both say success or failure.
    pub frames: usize,
    /// Frames of which both say the same.
    pub same: usize,
    /// Cohen's kappa: how much more often they agree than two people would who guess as often as they do. 1: always; 0: as if by
    /// guessing. Nothing where guessing would agree always, as when both say the same of every frame.
    pub kappa: Option<f64>,
}

impl Agreement {
    /// Of what two people say of the same frames. Frames that one of them skipped or left out do not count.
    #[must_use]
    pub fn of(one: &[Option<Answer>], other: &[Option<Answer>]) -> Self {
        let mut counts = [[0usize; 2]; 2];
        for (one, other) in one.iter().zip(other) {
            let label = |answer: &Option<Answer>| answer.and_then(Answer::label);
            if let (Some(one), Some(other)) = (label(one), label(other)) {
                counts[usize::from(one)][usize::from(other)] += 1;
            }
        }
        Self::of_counts(counts)
    }

    /// Of how often the first says failure or success while the second says failure or success.
    fn of_counts(counts: [[usize; 2]; 2]) -> Self {
        let frames: usize = counts.iter().flatten().sum();
        let same = counts[0][0] + counts[1][1];
        let share = |count: usize| count as f64 / frames.max(1) as f64;
        let by_guessing: f64 = [0, 1]
            .map(|class| {
                share(counts[class][0] + counts[class][1]) * share(counts[0][class] + counts[1][class])
            })
            .iter()
            .sum();
        let kappa =
            (frames > 0 && by_guessing < 1.0).then(|| (share(same) - by_guessing) / (1.0 - by_guessing));
        Self { frames, same, kappa }
    }

    /// Both together: the frames of several episodes.
    #[must_use]
    pub fn over<'a>(
        episodes: impl IntoIterator<Item = (&'a [Option<Answer>], &'a [Option<Answer>])>,
    ) -> Self {
        let (mut one, mut other) = (Vec::new(), Vec::new());
        for (first, second) in episodes {
            one.extend_from_slice(first);
            other.extend_from_slice(second);
        }
        Self::of(&one, &other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: of 50 frames both say yes of 20 and no of 15, so that they agree on 0.7. The first says yes of 25 (0.5), the second of
    /// 30 (0.6): guessing agrees on 0.5 * 0.6 + 0.5 * 0.4 = 0.5, and kappa is (0.7 - 0.5) / (1 - 0.5) = 0.4.
    /// The second: they agree on 60 of 100; 0.6 * 0.7 + 0.4 * 0.3 = 0.54, and kappa is 0.06 / 0.46. The third: the opposite of one
    /// another, with halves of each: (0 - 0.5) / 0.5.
    #[test]
    fn kappa_is_cohens() {
        for (counts, same, kappa) in [
            ([[15, 10], [5, 20]], 35, Some(0.4)),
            ([[15, 25], [15, 45]], 60, Some(0.06 / 0.46)),
            ([[0, 7], [7, 0]], 0, Some(-1.0)),
            ([[4, 0], [0, 3]], 7, Some(1.0)),
            ([[0, 0], [0, 9]], 9, None),
            ([[0, 0], [0, 0]], 0, None),
        ] {
            let found = Agreement::of_counts(counts);
            assert_eq!((found.frames, found.same), (counts.iter().flatten().sum(), same));
            match (found.kappa, kappa) {
                (Some(found), Some(kappa)) => assert!((found - kappa).abs() < 1e-12, "{found}, not {kappa}"),
                (found, kappa) => assert_eq!(found, kappa, "{counts:?}"),
            }
        }
    }

    #[test]
    fn frames_that_one_left_out_do_not_count() {
        use Answer::{Failure, Skip, Success};
        let one = [Some(Success), Some(Failure), None, Some(Skip), Some(Success)];
        let other = [Some(Success), Some(Success), Some(Success), Some(Failure), None];
        let found = Agreement::over([(&one[..], &other[..])]);
        assert_eq!((found.frames, found.same, found.kappa), (2, 1, Some(0.0)));
    }
}
