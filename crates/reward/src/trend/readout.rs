//! From an answer to how likely each label is.

use super::model::Answer;
use super::parse::parse_trend;
use super::vocabulary::Trend;

/// The logits of positive, negative and unclear; a label that cannot be is minus infinity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LabelLogits(pub [f32; 3]);

/// How likely each label is; the three sum to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LabelProbabilities {
    /// That things get better.
    pub positive: f32,
    /// That they get worse.
    pub negative: f32,
    /// That the trend is unclear.
    pub unclear: f32,
}

impl LabelProbabilities {
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

/// How answers are parsed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReadoutSettings {
    /// What logits are divided by, as calibration found it honest.
    pub temperature: f64,
    /// Where positive and negative are less than this apart, the answer counts as unclear.
    pub abstain_band: f32,
}

impl Default for ReadoutSettings {
    fn default() -> Self {
        Self { temperature: 1.0, abstain_band: 0.0 }
    }
}

/// A parsed answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ParsedAnswer {
    /// A label, and how likely each was.
    Label(Trend, LabelProbabilities),
    /// Words that are no label, or logits that are no numbers.
    Invalid,
    /// Nobody answered.
    Missing,
}

impl ReadoutSettings {
    /// The label of an answer.
    #[must_use]
    pub fn label(&self, answer: &Answer) -> Trend {
        match self.read(answer) {
            ParsedAnswer::Label(label, _) => label,
            ParsedAnswer::Invalid | ParsedAnswer::Missing => Trend::Invalid,
        }
    }

    pub(crate) fn read(&self, answer: &Answer) -> ParsedAnswer {
        let (probabilities, label) = match answer {
            Answer::Missing => return ParsedAnswer::Missing,
            Answer::NoLabel(_) | Answer::WordLogprobs(_) => return ParsedAnswer::Invalid,
            Answer::Logits(logits) => {
                let probabilities = LabelProbabilities::of(*logits, self.temperature);
                (probabilities, probabilities.map(|probabilities| probabilities.likeliest()))
            }
            Answer::Text(text) => {
                let trend = parse_trend(text);
                (LabelProbabilities::certain(trend), Some(trend))
            }
        };
        match (probabilities, label) {
            (Some(probabilities), _) if probabilities.vote().abs() < self.abstain_band => {
                let unsure = LabelProbabilities { positive: 0.0, negative: 0.0, unclear: 1.0 };
                ParsedAnswer::Label(Trend::Unclear, unsure)
            }
            (Some(probabilities), Some(label)) => ParsedAnswer::Label(label, probabilities),
            _ => ParsedAnswer::Invalid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(readout: ReadoutSettings, logits: [f32; 3]) -> ParsedAnswer {
        readout.read(&Answer::Logits(LabelLogits(logits)))
    }

    #[test]
    fn logits_become_probabilities() {
        let probabilities = LabelProbabilities::of(LabelLogits([2.0, 0.0, 1.0]), 1.0).unwrap();
        // e^2, e^0 and e^1 over their sum, by hand.
        let sum = 7.389_056_f32 + 1.0 + 2.718_281_7;
        for (found, expected) in [probabilities.positive, probabilities.negative, probabilities.unclear]
            .into_iter()
            .zip([7.389_056 / sum, 1.0 / sum, 2.718_281_7 / sum])
        {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
        assert!((probabilities.vote() - (7.389_056 - 1.0) / sum).abs() < 1e-6);
        let colder = LabelProbabilities::of(LabelLogits([2.0, 0.0, 1.0]), 0.5).unwrap();
        assert_eq!(LabelProbabilities::of(LabelLogits([4.0, 0.0, 2.0]), 1.0), Some(colder));
        let shifted = LabelProbabilities::of(LabelLogits([1002.0, 1000.0, 1001.0]), 1.0).unwrap();
        assert!((shifted.positive - probabilities.positive).abs() < 1e-6);
    }

    #[test]
    fn what_is_no_number_is_invalid_and_what_cannot_be_is_not_likely() {
        let readout = ReadoutSettings::default();
        assert_eq!(read(readout, [f32::NAN, 0.0, 0.0]), ParsedAnswer::Invalid);
        assert_eq!(read(readout, [f32::NEG_INFINITY; 3]), ParsedAnswer::Invalid);
        assert_eq!(read(readout, [f32::INFINITY, 0.0, 0.0]), ParsedAnswer::Invalid);
        let certain = LabelProbabilities { positive: 0.0, negative: 1.0, unclear: 0.0 };
        let logits = [f32::NEG_INFINITY, -3.0, f32::NEG_INFINITY];
        assert_eq!(read(readout, logits), ParsedAnswer::Label(Trend::Negative, certain));
    }

    #[test]
    fn a_close_call_is_unclear() {
        let readout = ReadoutSettings { abstain_band: 0.2, ..ReadoutSettings::default() };
        assert!(
            matches!(read(readout, [1.0, 0.9, 0.0]), ParsedAnswer::Label(Trend::Unclear, probabilities) if probabilities.vote() == 0.0)
        );
        assert!(matches!(read(readout, [1.0, 0.0, 0.0]), ParsedAnswer::Label(Trend::Positive, _)));
        assert!(matches!(
            read(ReadoutSettings::default(), [1.0, 1.0, 0.0]),
            ParsedAnswer::Label(Trend::Unclear, _)
        ));
        let words = readout.read(&Answer::Text("negative".into()));
        assert!(
            matches!(words, ParsedAnswer::Label(Trend::Negative, probabilities) if probabilities.vote() == -1.0)
        );
        assert_eq!(readout.read(&Answer::Text("I cannot say".into())), ParsedAnswer::Invalid);
        assert_eq!(readout.read(&Answer::Missing), ParsedAnswer::Missing);
    }
}
