//! How late a person presses a key after seeing something.

/// Presses sooner than this were guesses, and later ones were distractions.
const SOONEST_SECS: f64 = 0.1;
const LATEST_SECS: f64 = 1.5;
/// A median of fewer says little.
const FEWEST: usize = 3;

/// Measures reactions: show something, wait for a key, several times.
#[derive(Debug, Clone, Default)]
pub struct ReactionTest {
    shown: Option<f64>,
    reactions: Vec<f64>,
    dropped: usize,
}

/// How late a person is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reaction {
    /// The median, seconds.
    pub median_secs: f64,
    /// Half of the reactions are within this of the median.
    pub spread_secs: f64,
    /// How many were measured.
    pub count: usize,
    /// Presses that were no reactions: too early, or far too late.
    pub dropped: usize,
}

impl ReactionTest {
    /// Something is shown at this time.
    pub fn show(&mut self, time: f64) {
        self.shown = Some(time);
    }

    /// A key is pressed at this time. Returns the reaction, if it was one.
    pub fn press(&mut self, time: f64) -> Option<f64> {
        let reaction = self.shown.take().map(|shown| time - shown);
        match reaction.filter(|reaction| (SOONEST_SECS..=LATEST_SECS).contains(reaction)) {
            Some(reaction) => self.reactions.push(reaction),
            None => self.dropped += 1,
        }
        reaction.filter(|reaction| self.reactions.last() == Some(reaction))
    }

    /// How many reactions there are.
    pub fn count(&self) -> usize {
        self.reactions.len()
    }

    /// What was measured, if that is enough to say something.
    pub fn result(&self) -> Option<Reaction> {
        if self.reactions.len() < FEWEST {
            return None;
        }
        let median_secs = median(self.reactions.clone());
        let off = self.reactions.iter().map(|reaction| (reaction - median_secs).abs()).collect();
        Some(Reaction {
            median_secs,
            spread_secs: median(off),
            count: self.reactions.len(),
            dropped: self.dropped,
        })
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) { (values[middle - 1] + values[middle]) / 2.0 } else { values[middle] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_true_reactions_is_measured() {
        let mut test = ReactionTest::default();
        let mut react = |at: f64, after: f64| {
            test.show(at);
            test.press(at + after)
        };
        assert_eq!(react(1.0, 0.25), Some(0.25));
        assert_eq!(react(3.0, 0.02), None, "a guess");
        assert_eq!(react(5.0, 0.5), Some(0.5));
        assert_eq!(react(9.0, 4.0), None, "asleep");
        assert_eq!(test.result(), None, "two are too few");
        test.show(20.0);
        assert_eq!(test.press(20.25), Some(0.25));
        assert_eq!(test.press(20.5), None, "nothing was shown");
        let reaction = test.result().unwrap();
        assert_eq!(reaction, Reaction { median_secs: 0.25, spread_secs: 0.0, count: 3, dropped: 3 });
    }
}
