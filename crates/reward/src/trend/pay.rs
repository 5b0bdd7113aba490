//! What a label is worth.

use super::readout::{Leaning, Read};
use super::vocabulary::Trend;

/// What each answer pays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Amounts {
    /// For `positive`.
    pub positive: f32,
    /// For `negative`.
    pub negative: f32,
    /// For `unclear`.
    pub unclear: f32,
    /// For an answer that is none of these.
    pub invalid: f32,
    /// Where nobody answered.
    pub missing: f32,
}

impl Amounts {
    /// RLinf's.
    pub const RLINF: Self = Self { positive: 1.0, negative: -0.2, unclear: 0.0, invalid: 0.0, missing: 0.0 };

    fn of(&self, trend: Trend) -> f32 {
        match trend {
            Trend::Positive => self.positive,
            Trend::Negative => self.negative,
            Trend::Unclear => self.unclear,
            Trend::Invalid => self.invalid,
        }
    }

    fn expected(&self, leaning: Leaning) -> f32 {
        let Leaning { positive, negative, unclear } = leaning;
        self.positive * positive + self.negative * negative + self.unclear * unclear
    }
}

/// How answers are paid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TrendPay {
    /// The amount of the likeliest label.
    Hard(Amounts),
    /// The mean of the amounts, each as likely as its label: with RLinf's amounts, p₊ - 0.2 p₋.
    Soft(Amounts),
    /// Votes from -1 to 1, for a potential that adds them up: p₊ - p₋, or that of a certain answer.
    Votes {
        /// By how likely each label is, not by the likeliest alone.
        soft: bool,
    },
}

impl TrendPay {
    pub(crate) fn of(&self, read: Read) -> f32 {
        match (*self, read) {
            (Self::Hard(amounts) | Self::Soft(amounts), Read::Invalid) => amounts.of(Trend::Invalid),
            (Self::Hard(amounts) | Self::Soft(amounts), Read::Missing) => amounts.missing,
            (Self::Hard(amounts), Read::Label(label, _)) => amounts.of(label),
            (Self::Soft(amounts), Read::Label(_, leaning)) => amounts.expected(leaning),
            (Self::Votes { .. }, Read::Invalid | Read::Missing) => 0.0,
            (Self::Votes { soft: true }, Read::Label(_, leaning)) => leaning.vote(),
            (Self::Votes { soft: false }, Read::Label(label, _)) => {
                Leaning::certain(label).map_or(0.0, |leaning| leaning.vote())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_pay_their_amount_or_their_share_of_it() {
        let leaning = Leaning { positive: 0.5, negative: 0.25, unclear: 0.25 };
        let read = Read::Label(Trend::Positive, leaning);
        let amounts = Amounts { invalid: -3.0, missing: 7.0, ..Amounts::RLINF };
        assert_eq!(TrendPay::Hard(amounts).of(read), 1.0);
        assert!((TrendPay::Soft(amounts).of(read) - (0.5 - 0.2 * 0.25)).abs() < 1e-7);
        assert_eq!(TrendPay::Votes { soft: true }.of(read), 0.25);
        assert_eq!(TrendPay::Votes { soft: false }.of(read), 1.0);
        for pay in [TrendPay::Hard(amounts), TrendPay::Soft(amounts)] {
            assert_eq!((pay.of(Read::Invalid), pay.of(Read::Missing)), (-3.0, 7.0));
        }
        assert_eq!(TrendPay::Votes { soft: true }.of(Read::Missing), 0.0);
        let worse = Leaning::certain(Trend::Negative).unwrap();
        let worse = Read::Label(Trend::Negative, worse);
        assert_eq!(TrendPay::Hard(Amounts::RLINF).of(worse), -0.2);
        assert_eq!(TrendPay::Soft(Amounts::RLINF).of(worse), -0.2);
        assert_eq!(TrendPay::Votes { soft: false }.of(worse), -1.0);
    }
}
