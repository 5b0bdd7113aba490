//! Ranges of decimal numbers, added up as Python's `decimal` does it: exact values, sums of 28 digits.
//!
//! Hydra counts `range(0,1,0.1)` so. Binary sums would drift, and a range could end one value early or late.

use num_bigint::BigInt;

/// Digits of a sum, as in Python's default context.
const DIGITS: usize = 28;

/// `digits × 10^exponent`.
#[derive(Clone)]
struct Decimal {
    digits: BigInt,
    exponent: i32,
}

impl Decimal {
    /// The exact value; nothing for what is not finite.
    fn of(number: f64) -> Option<Self> {
        if !number.is_finite() {
            return None;
        }
        let bits = number.to_bits();
        let (fraction, exponent) = (bits & ((1 << 52) - 1), (bits >> 52 & 0x7ff) as i32);
        let (mantissa, exponent) = match exponent {
            0 => (fraction, -1074),
            exponent => (fraction | 1 << 52, exponent - 1075),
        };
        let sign = if number < 0.0 { -1 } else { 1 };
        let mantissa = BigInt::from(mantissa) * sign;
        Some(match u32::try_from(exponent) {
            Ok(exponent) => Self { digits: mantissa << exponent, exponent: 0 },
            // 2^-n is 5^n × 10^-n.
            Err(_) => Self { digits: mantissa * BigInt::from(5).pow(exponent.unsigned_abs()), exponent },
        })
    }

    /// The digits of both at the smaller exponent.
    fn aligned(&self, other: &Self) -> (BigInt, BigInt, i32) {
        let exponent = self.exponent.min(other.exponent);
        let at = |one: &Self| &one.digits * BigInt::from(10).pow((one.exponent - exponent).unsigned_abs());
        (at(self), at(other), exponent)
    }

    fn is_below(&self, other: &Self) -> bool {
        let (one, two, _) = self.aligned(other);
        one < two
    }

    fn plus(&self, other: &Self) -> Self {
        let (one, two, exponent) = self.aligned(other);
        Self { digits: one + two, exponent }.rounded()
    }

    /// With 28 digits, a half to the even neighbour.
    fn rounded(self) -> Self {
        let length = self.digits.magnitude().to_string().len();
        let Some(extra) = length.checked_sub(DIGITS).filter(|extra| *extra > 0) else { return self };
        let unit = BigInt::from(10).pow(extra as u32);
        let kept = &self.digits / &unit;
        let rest = (&self.digits - &kept * &unit).magnitude() * 2u32;
        let is_odd = kept.bit(0);
        let up = rest > *unit.magnitude() || (rest == *unit.magnitude() && is_odd);
        let away = if self.digits < BigInt::ZERO { -1 } else { 1 };
        let digits = if up { kept + away } else { kept };
        Self { digits, exponent: self.exponent + extra as i32 }
    }

    fn to_f64(&self) -> f64 {
        format!("{}e{}", self.digits, self.exponent).parse().unwrap_or(f64::NAN)
    }
}

/// From a start to a stop, without it, at most `limit` values; nothing for a step of zero and numbers that
/// are not finite.
pub(crate) fn float_range([start, stop, step]: [f64; 3], limit: usize) -> Option<Vec<f64>> {
    if step == 0.0 {
        return None;
    }
    let (mut at, stop, by) = (Decimal::of(start)?, Decimal::of(stop)?, Decimal::of(step)?);
    let mut values = Vec::new();
    while values.len() < limit && if step > 0.0 { at.is_below(&stop) } else { stop.is_below(&at) } {
        values.push(at.to_f64());
        at = at.plus(&by);
    }
    Some(values)
}
