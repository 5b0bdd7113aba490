//! Numbers, durations and rates as people like to read them.

use std::time::Duration;

/// A measured number in about four digits: `0.8125`, `12.40`, `1,203`, `3.10e-5`, `NaN`.
#[must_use]
pub fn number(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return if value.is_nan() {
            "NaN".into()
        } else if value > 0.0 {
            "inf".into()
        } else {
            "-inf".into()
        };
    }
    if value == 0.0 {
        return "0".into();
    }
    if !(1e-3..1e7).contains(&size) {
        return format!("{value:.2e}");
    }
    if value.fract() == 0.0 || size >= 1e3 {
        let sign = if value < 0.0 { "-" } else { "" };
        return format!("{sign}{}", count(size.round() as u64));
    }
    let decimals = 3 - size.log10().floor() as i32;
    format!("{value:.*}", usize::try_from(decimals).unwrap_or(0))
}

/// A share of one as people say it: `97 %`, `0.4 %`, `99.6 %`, `<0.1 %`.
#[must_use]
pub fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    match percent {
        _ if !percent.is_finite() => "–".into(),
        _ if percent > 0.0 && percent < 0.1 => "<0.1 %".into(),
        _ if percent > 99.9 && percent < 100.0 => ">99.9 %".into(),
        _ if (percent > 0.0 && percent < 0.95) || (percent > 99.05 && percent < 100.0) => {
            format!("{percent:.1} %")
        }
        _ => format!("{percent:.0} %"),
    }
}

/// A count with separators: `1,203,400`.
#[must_use]
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A duration in its two largest units: `4.2s`, `29s`, `12m 04s`, `3h 20m`, `2d 05h`.
#[must_use]
pub fn duration(value: Duration) -> String {
    let secs = value.as_secs();
    match secs {
        0..10 => format!("{:.1}s", (value.as_secs_f64() * 10.0).floor() / 10.0),
        10..60 => format!("{secs}s"),
        60..3600 => format!("{}m {:02}s", secs / 60, secs % 60),
        3600..86_400 => format!("{}h {:02}m", secs / 3600, secs / 60 % 60),
        _ => format!("{}d {:02}h", count(secs / 86_400), secs / 3600 % 24),
    }
}

/// A rate in the unit of time that makes it a comfortable number: `12.4 updates/s`, `3.1 episodes/min`.
#[must_use]
pub fn rate(per_sec: f64, unit: &str) -> String {
    let (value, time) = match per_sec {
        1.0.. => (per_sec, "s"),
        r if r * 60.0 >= 1.0 => (per_sec * 60.0, "min"),
        _ => (per_sec * 3600.0, "h"),
    };
    let text = if value >= 1e3 { count(value.round() as u64) } else { format!("{value:.1}") };
    format!("{text} {unit}/{time}")
}

/// Bytes in the largest unit that leaves a number of at least 1.
#[must_use]
pub fn bytes(value: u64) -> String {
    let mut amount = value as f64;
    for unit in ["B", "KiB", "MiB"] {
        if amount < 1024.0 {
            return if unit == "B" { format!("{value} B") } else { format!("{amount:.1} {unit}") };
        }
        amount /= 1024.0;
    }
    format!("{amount:.1} GiB")
}

/// With a capital letter first.
#[must_use]
pub fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_about_four_digits() {
        let check = |value: f64, expected: &str| assert_eq!(number(value), expected);
        check(0.0, "0");
        check(-0.0, "0");
        check(1.0, "1");
        check(-250.0, "-250");
        check(0.8125, "0.8125");
        check(0.5, "0.5000");
        check(0.001_234, "0.001234");
        check(12.4, "12.40");
        check(-12.345_6, "-12.35");
        check(1203.0, "1,203");
        check(1203.6, "1,204");
        check(999.96, "1000.0");
        check(54_321.9, "54,322");
        check(3.1e-5, "3.10e-5");
        check(1.0e7, "1.00e7");
        check(f64::NAN, "NaN");
        check(f64::NEG_INFINITY, "-inf");
        check(f64::MAX, "1.80e308");
    }

    #[test]
    fn durations_have_two_units() {
        let check = |secs: f64, expected: &str| assert_eq!(duration(Duration::from_secs_f64(secs)), expected);
        check(0.0, "0.0s");
        check(9.99, "9.9s");
        check(59.9, "59s");
        check(724.0, "12m 04s");
        check(12_000.0, "3h 20m");
        check(190_800.0, "2d 05h");
    }

    #[test]
    fn rates_choose_their_unit() {
        let check = |per_sec: f64, expected: &str| assert_eq!(rate(per_sec, "updates"), expected);
        check(12.44, "12.4 updates/s");
        check(15_203.0, "15,203 updates/s");
        check(0.05, "3.0 updates/min");
        check(0.001, "3.6 updates/h");
        check(0.0, "0.0 updates/h");
    }

    #[test]
    fn bytes_have_a_fitting_unit() {
        for (value, text) in
            [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 20, "3.0 MiB"), (5 << 30, "5.0 GiB")]
        {
            assert_eq!(bytes(value), text);
        }
    }
}
