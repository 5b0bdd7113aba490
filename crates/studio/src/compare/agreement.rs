//! How often two say the same of a frame.

/// Frames of which two say something, by what they say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Agreement {
    pub(crate) both: usize,
    pub(crate) neither: usize,
    pub(crate) only_first: usize,
    pub(crate) only_second: usize,
}

impl Agreement {
    /// A frame more. Where one of them says nothing, it does not count.
    pub(crate) fn count(&mut self, first: Option<bool>, second: Option<bool>) {
        match (first, second) {
            (Some(true), Some(true)) => self.both += 1,
            (Some(false), Some(false)) => self.neither += 1,
            (Some(true), Some(false)) => self.only_first += 1,
            (Some(false), Some(true)) => self.only_second += 1,
            (None, _) | (_, None) => {}
        }
    }

    /// Frames of which both say something.
    pub(crate) fn frames(&self) -> usize {
        self.both + self.neither + self.only_first + self.only_second
    }

    /// The share of frames of which both say the same.
    pub(crate) fn share(&self) -> Option<f64> {
        (self.frames() > 0).then(|| (self.both + self.neither) as f64 / self.frames() as f64)
    }

    /// Cohen's kappa: agreement beyond what two would have who say yes as often as these, and at random. Nothing where both
    /// always say the same one thing.
    pub(crate) fn kappa(&self) -> Option<f64> {
        let frames = self.frames() as f64;
        let observed = self.share()?;
        let first = (self.both + self.only_first) as f64 / frames;
        let second = (self.both + self.only_second) as f64 / frames;
        let expected = first * second + (1.0 - first) * (1.0 - second);
        (expected < 1.0).then(|| (observed - expected) / (1.0 - expected))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The textbook's table of two readers of 50 proposals (20 both, 15 neither, 5 and 10 alone): agreement 0.7, kappa 0.4, by hand:
    /// expected agreement is 0.5 × 0.6 + 0.5 × 0.4 = 0.5.
    #[test]
    fn kappa_is_that_of_the_textbook() {
        let table = Agreement { both: 20, neither: 15, only_first: 5, only_second: 10 };
        assert_eq!(table.share(), Some(0.7));
        assert!((table.kappa().unwrap() - 0.4).abs() < 1e-12);
    }

    #[test]
    fn frames_without_an_answer_do_not_count() {
        let mut table = Agreement::default();
        for (first, second) in
            [(Some(true), Some(true)), (None, Some(true)), (Some(false), None), (Some(false), Some(true))]
        {
            table.count(first, second);
        }
        assert_eq!(table, Agreement { both: 1, only_second: 1, ..Agreement::default() });
        assert_eq!(Agreement::default().share(), None);
        assert_eq!(
            Agreement { neither: 9, ..Agreement::default() }.kappa(),
            None,
            "nothing was ever a success"
        );
    }
}
