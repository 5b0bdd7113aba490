//! When a reward model rewards: how late after success, and how often without one.

/// One episode: how late the reward came, and what came without success.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct EpisodeTiming {
    /// The first frame of success, if there is one.
    pub(crate) success: Option<usize>,
    /// The first rewarded frame.
    pub(crate) crossing: Option<usize>,
    /// Rewarded stretches without a single frame of success.
    pub(crate) false_alarms: usize,
}

impl EpisodeTiming {
    /// Nothing where nobody says what is true.
    pub(crate) fn of(truth: &[Option<bool>], rewarded: &[bool]) -> Option<Self> {
        if truth.iter().all(Option::is_none) {
            return None;
        }
        let success = truth.iter().position(|label| *label == Some(true));
        let crossing = rewarded.iter().position(|rewarded| *rewarded);
        let mut false_alarms = 0;
        let mut at = 0;
        while at < rewarded.len() {
            let end =
                (at..rewarded.len()).find(|other| rewarded[*other] != rewarded[at]).unwrap_or(rewarded.len());
            let known = truth.get(at..end.min(truth.len())).unwrap_or_default();
            let is_false = known.contains(&Some(false)) && !known.contains(&Some(true));
            false_alarms += usize::from(rewarded[at] && is_false);
            at = end;
        }
        Some(Self { success, crossing, false_alarms })
    }

    /// Frames from success to the first reward; negative where the reward was first. Nothing where one of them never came.
    pub(crate) fn lag(&self) -> Option<f64> {
        Some(self.crossing? as f64 - self.success? as f64)
    }
}

/// Many episodes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct TimingSummary {
    /// Episodes of which the truth is known.
    pub(crate) episodes: usize,
    /// Those with success.
    pub(crate) successes: usize,
    /// Successes that were never rewarded.
    pub(crate) missed: usize,
    /// Rewards that came before success.
    pub(crate) early: usize,
    /// Lower quartile, median and upper quartile of the lag, in frames.
    pub(crate) lag: Option<[f64; 3]>,
    pub(crate) false_alarms: usize,
    /// Episodes with a false alarm.
    pub(crate) alarmed: usize,
}

impl TimingSummary {
    pub(crate) fn of(episodes: &[EpisodeTiming]) -> Self {
        let mut lags: Vec<f64> = episodes.iter().filter_map(EpisodeTiming::lag).collect();
        let is_missed = |one: &&EpisodeTiming| one.success.is_some() && one.crossing.is_none();
        Self {
            episodes: episodes.len(),
            successes: episodes.iter().filter(|one| one.success.is_some()).count(),
            missed: episodes.iter().filter(is_missed).count(),
            early: lags.iter().filter(|lag| **lag < 0.0).count(),
            lag: quartiles(&mut lags),
            false_alarms: episodes.iter().map(|one| one.false_alarms).sum(),
            alarmed: episodes.iter().filter(|one| one.false_alarms > 0).count(),
        }
    }

    /// False alarms per episode.
    pub(crate) fn alarm_rate(&self) -> Option<f64> {
        (self.episodes > 0).then(|| self.false_alarms as f64 / self.episodes as f64)
    }
}

/// Lower quartile, median, upper quartile: between two values, in proportion (numpy's `linear`, R's type 7).
fn quartiles(values: &mut [f64]) -> Option<[f64; 3]> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some([0.25, 0.5, 0.75].map(|share| {
        let place = share * last as f64;
        let (below, above) = (values[place.floor() as usize], values[place.ceil() as usize]);
        below + (above - below) * place.fract()
    }))
}

/// Where a share lies, 95 times of 100, of which so many of so many trials were found: Wilson's interval.
pub(crate) fn wilson(found: f64, trials: f64) -> (f64, f64) {
    const Z: f64 = 1.959_964;
    if trials <= 0.0 {
        return (0.0, 1.0);
    }
    let share = found / trials;
    let shrink = 1.0 + Z * Z / trials;
    let centre = (share + Z * Z / (2.0 * trials)) / shrink;
    let half = Z / shrink * (share * (1.0 - share) / trials + Z * Z / (4.0 * trials * trials)).sqrt();
    ((centre - half).max(0.0), (centre + half).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `truth` in letters: y success, n none, ? unknown; rewards as 1 and 0.
    fn timing(truth: &str, rewarded: &str) -> Option<EpisodeTiming> {
        let letter = |letter: char| match letter {
            'y' => Some(true),
            'n' => Some(false),
            _ => None,
        };
        let truth: Vec<Option<bool>> = truth.chars().map(letter).collect();
        let rewarded: Vec<bool> = rewarded.chars().map(|digit| digit == '1').collect();
        EpisodeTiming::of(&truth, &rewarded)
    }

    #[test]
    fn lags_and_false_alarms_are_those_one_counts_by_hand() {
        for (truth, rewarded, lag, alarms) in [
            ("nnnyyy", "000011", Some(1.0), 0),
            ("nnnyyy", "001111", Some(-1.0), 0), // early, and right in the end
            ("nnnyyy", "100011", Some(-3.0), 1),
            ("nnnyyy", "000000", None, 0),
            ("nnnnnn", "010110", None, 2),
            ("n?nnnn", "010000", None, 0), // nobody knows
            ("yyynnn", "000011", Some(4.0), 1),
        ] {
            let found = timing(truth, rewarded).unwrap();
            assert_eq!((found.lag(), found.false_alarms), (lag, alarms), "{truth} {rewarded}");
        }
        assert_eq!(timing("???", "010"), None);
    }

    /// numpy.percentile([-3, 0, 1, 4, 9], [25, 50, 75]) is [0, 1, 4], of [-3, 1, 2, 8] it is [0, 1.5, 3.5].
    #[test]
    fn quartiles_are_those_of_numpy() {
        assert_eq!(quartiles(&mut [9.0, -3.0, 4.0, 0.0, 1.0]), Some([0.0, 1.0, 4.0]));
        assert_eq!(quartiles(&mut [-3.0, 2.0, 1.0, 8.0]), Some([0.0, 1.5, 3.5]));
        assert_eq!((quartiles(&mut [5.0]), quartiles(&mut [])), (Some([5.0; 3]), None));
    }

    #[test]
    fn episodes_are_summed_up() {
        let episodes: Vec<EpisodeTiming> =
            [("nnyy", "0001"), ("nnyy", "0000"), ("nnnn", "1010"), ("nnyy", "0011")]
                .iter()
                .filter_map(|(truth, rewarded)| timing(truth, rewarded))
                .collect();
        let found = TimingSummary::of(&episodes);
        let expected = TimingSummary {
            episodes: 4,
            successes: 3,
            missed: 1,
            early: 0,
            lag: Some([0.25, 0.5, 0.75]),
            false_alarms: 2,
            alarmed: 1,
        };
        assert_eq!((&found, found.alarm_rate()), (&expected, Some(0.5)));
    }

    /// The interval of 8 of 10 is printed in textbooks as 0.490 to 0.943.
    #[test]
    fn wilson_is_that_of_the_textbook() {
        let (low, high) = wilson(8.0, 10.0);
        assert!((low - 0.4902).abs() < 1e-4 && (high - 0.9433).abs() < 1e-4, "{low} {high}");
        assert_eq!(wilson(0.0, 0.0), (0.0, 1.0));
    }
}
