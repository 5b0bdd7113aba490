//! How long a training is.

/// How long: the smaller of the two, or one epoch where neither is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Length {
    /// Times through the training frames.
    pub max_epochs: Option<u64>,
    /// Steps of the optimiser.
    pub max_steps: Option<u64>,
}

impl Length {
    /// In steps.
    #[must_use]
    pub fn steps(self, steps_per_epoch: u64) -> u64 {
        let by_epochs = self.max_epochs.map(|epochs| epochs.saturating_mul(steps_per_epoch));
        match (by_epochs, self.max_steps) {
            (Some(a), Some(b)) => a.min(b),
            (Some(only), None) | (None, Some(only)) => only,
            (None, None) => steps_per_epoch,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_one_ends_it() {
        let steps = |max_epochs, max_steps| Length { max_epochs, max_steps }.steps(10);
        assert_eq!(steps(Some(3), None), 30);
        assert_eq!(steps(Some(3), Some(12)), 12);
        assert_eq!(steps(Some(1), Some(12)), 10);
        assert_eq!(steps(None, Some(0)), 0);
        assert_eq!(steps(None, None), 10);
    }
}
