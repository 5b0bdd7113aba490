//! Times as Python's `strftime` prints them in the C locale, because `${now:%Y-%m-%d}` names run directories.

use jiff::civil::DateTime;
use jiff::fmt::strtime;

/// A local time under a pattern of Python's. `Err` says which directive cannot be printed.
pub(crate) fn strftime(pattern: &str, time: DateTime) -> Result<String, String> {
    let pattern = in_jiffs_words(pattern);
    strtime::format(&pattern, time).map_err(|error| error.to_string())
}

/// Directives that mean something else to jiff than to Python in the C locale.
fn in_jiffs_words(pattern: &str) -> String {
    let mut words = String::with_capacity(pattern.len());
    let mut rest = pattern.chars();
    while let Some(character) = rest.next() {
        if character != '%' {
            words.push(character);
            continue;
        }
        match rest.next() {
            Some('f') => words.push_str("%6f"),
            Some('c') => words.push_str("%a %b %e %H:%M:%S %Y"),
            Some('x') => words.push_str("%m/%d/%y"),
            Some('X') => words.push_str("%H:%M:%S"),
            // A time without a zone prints none.
            Some('z' | 'Z') => {}
            Some(directive) => words.extend(['%', directive]),
            None => words.push_str("%%"),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, expected: &str) {
        let time = DateTime::constant(2024, 2, 29, 12, 34, 56, 42_000);
        assert_eq!(strftime(pattern, time).unwrap(), expected);
    }

    #[test]
    fn times_print_as_in_python() {
        check("%Y-%m-%d/%H-%M-%S", "2024-02-29/12-34-56");
        check("%a %A %b %B %j %p %I %y %f %% %u %w", "Thu Thursday Feb February 060 PM 12 24 000042 % 4 4");
        check(
            "%c|%x|%X|%F|%T|%R|%D|%z|%",
            "Thu Feb 29 12:34:56 2024|02/29/24|12:34:56|2024-02-29|12:34:56|12:34|02/29/24||%",
        );
        assert!(strftime("%!", DateTime::default()).is_err());
    }
}
