//! From an answer to how likely each label is.

use super::model::Answer;
use super::parse::parse_trend;
use super::vocabulary::Trend;

/// The logits of positive, negative and unclear; a label that cannot be is minus infinity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LabelLogits(pub [f32; 3]);

/// How likely each label is; the three sum to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Leaning {
    /// That things get better.
    pub positive: f32,
    /// That they get worse.
    pub negative: f32,
    /// That it cannot be told.
    pub unclear: f32,
}

impl Leaning {
    /// The softmax of logits divided by a temperature. `None` of logits that are no numbers.
    #[must_use]
    pub fn of(logits: LabelLogits, temperature: f64) -> Option<Self> {
        let scaled = logits.0.map(|logit| f64::from(logit) / temperature);
        let largest = scaled.into_iter().fold(f64::NEG_INFINITY, f64::max);
        if !largest.is_finite() || scaled.iter().any(|logit| logit.is_nan()) {
            return None;
        }
        let powers = scaled.map(|logit| (logit - largest).exp());
        let sum: f64 = powers.iter().sum();
        let [positive, negative, unclear] = powers.map(|power| (power / sum) as f32);
        Some(Self { positive, negative, unclear })
    }

    /// Certain of one label.
    #[must_use]
    pub fn certain(trend: Trend) -> Option<Self> {
        let of = |label: Trend| if trend == label { 1.0 } else { 0.0 };
        let [positive, negative, unclear] = Trend::LABELS.map(of);
        (trend != Trend::Invalid).then_some(Self { positive, negative, unclear })
    }

    /// For better or worse: from -1 to 1.
    #[must_use]
    pub fn vote(&self) -> f32 {
        self.positive - self.negative
    }

    /// The likeliest label; of two equally likely ones, the less daring.
    #[must_use]
    pub fn likeliest(&self) -> Trend {
        let Self { positive, negative, unclear } = *self;
        match () {
            () if positive > negative && positive > unclear => Trend::Positive,
            () if negative > positive && negative > unclear => Trend::Negative,
            () => Trend::Unclear,
        }
    }
}

/// How answers are read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// What logits are divided by, as calibration found it honest.
    pub temperature: f64,
    /// Where positive and negative are less than this apart, the answer counts as unclear.
    pub abstain_band: f32,
}

impl Default for Reading {
    fn default() -> Self {
        Self { temperature: 1.0, abstain_band: 0.0 }
    }
}

/// An answer as read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Read {
    /// A label, and how likely each was.
    Label(Trend, Leaning),
    /// Words that are no label, or logits that are no numbers.
    Invalid,
    /// Nobody answered.
    Missing,
}

impl Reading {
    /// The label of an answer.
    #[must_use]
    pub fn label(&self, answer: &Answer) -> Trend {
        match self.read(answer) {
            Read::Label(label, _) => label,
            Read::Invalid | Read::Missing => Trend::Invalid,
        }
    }

    pub(crate) fn read(&self, answer: &Answer) -> Read {
        let (leaning, label) = match answer {
            Answer::Missing => return Read::Missing,
            Answer::Logits(logits) => {
                let leaning = Leaning::of(*logits, self.temperature);
                (leaning, leaning.map(|leaning| leaning.likeliest()))
            }
            Answer::Text(text) => {
                let trend = parse_trend(text);
                (Leaning::certain(trend), Some(trend))
            }
        };
        match (leaning, label) {
            (Some(leaning), _) if leaning.vote().abs() < self.abstain_band => {
                let unsure = Leaning { positive: 0.0, negative: 0.0, unclear: 1.0 };
                Read::Label(Trend::Unclear, unsure)
            }
            (Some(leaning), Some(label)) => Read::Label(label, leaning),
            _ => Read::Invalid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(reading: Reading, logits: [f32; 3]) -> Read {
        reading.read(&Answer::Logits(LabelLogits(logits)))
    }

    #[test]
    fn logits_become_probabilities() {
        let leaning = Leaning::of(LabelLogits([2.0, 0.0, 1.0]), 1.0).unwrap();
        // e^2, e^0 and e^1 over their sum, by hand.
        let sum = 7.389_056_f32 + 1.0 + 2.718_281_7;
        for (found, expected) in [leaning.positive, leaning.negative, leaning.unclear].into_iter().zip([
            7.389_056 / sum,
            1.0 / sum,
            2.718_281_7 / sum,
        ]) {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
        assert!((leaning.vote() - (7.389_056 - 1.0) / sum).abs() < 1e-6);
        let colder = Leaning::of(LabelLogits([2.0, 0.0, 1.0]), 0.5).unwrap();
        assert_eq!(Leaning::of(LabelLogits([4.0, 0.0, 2.0]), 1.0), Some(colder));
        let shifted = Leaning::of(LabelLogits([1002.0, 1000.0, 1001.0]), 1.0).unwrap();
        assert!((shifted.positive - leaning.positive).abs() < 1e-6);
    }

    #[test]
    fn what_is_no_number_is_invalid_and_what_cannot_be_is_not_likely() {
        let reading = Reading::default();
        assert_eq!(read(reading, [f32::NAN, 0.0, 0.0]), Read::Invalid);
        assert_eq!(read(reading, [f32::NEG_INFINITY; 3]), Read::Invalid);
        assert_eq!(read(reading, [f32::INFINITY, 0.0, 0.0]), Read::Invalid);
        let certain = Leaning { positive: 0.0, negative: 1.0, unclear: 0.0 };
        let logits = [f32::NEG_INFINITY, -3.0, f32::NEG_INFINITY];
        assert_eq!(read(reading, logits), Read::Label(Trend::Negative, certain));
    }

    #[test]
    fn a_close_call_is_unclear() {
        let reading = Reading { abstain_band: 0.2, ..Reading::default() };
        assert!(
            matches!(read(reading, [1.0, 0.9, 0.0]), Read::Label(Trend::Unclear, leaning) if leaning.vote() == 0.0)
        );
        assert!(matches!(read(reading, [1.0, 0.0, 0.0]), Read::Label(Trend::Positive, _)));
        assert!(matches!(read(Reading::default(), [1.0, 1.0, 0.0]), Read::Label(Trend::Unclear, _)));
        let words = reading.read(&Answer::Text("negative".into()));
        assert!(matches!(words, Read::Label(Trend::Negative, leaning) if leaning.vote() == -1.0));
        assert_eq!(reading.read(&Answer::Text("I cannot say".into())), Read::Invalid);
        assert_eq!(reading.read(&Answer::Missing), Read::Missing);
    }
}
