//! The metrics as a table to read: `metrics.log`.
//!
//! ```text
//! step 120 · 2026-08-01 12:34:56 · 12m 04s
//!   env     return        12.40
//!           success_once  0.8125
//!   train   actor/loss    0.001234
//! ```

use std::fmt::Write as _;
use std::time::Duration;

use indexmap::IndexMap;
use jiff::tz::TimeZone;
use unicode_width::UnicodeWidthStr;

use crate::format;
use crate::line::Stamp;

/// The table for one step: metrics in the groups that the part before `/` names.
pub(crate) fn table(stamp: Stamp, step: u64, values: &[(String, f64)]) -> String {
    let groups = grouped(values);
    let group_width = groups.keys().map(|group| group.width()).max().unwrap_or(0);
    let name_width = groups.values().flatten().map(|(name, _)| name.width()).max().unwrap_or(0);
    let elapsed = format::duration(Duration::try_from_secs_f64(stamp.elapsed_secs).unwrap_or_default());
    let mut table =
        format!("step {} · {} · {elapsed}\n", format::count(step), local(stamp, TimeZone::system()));
    for (group, metrics) in groups {
        for (row, (name, value)) in metrics.iter().enumerate() {
            let group = if row == 0 { group } else { "" };
            let group = padded(group, group_width);
            let _ = writeln!(table, "  {group}   {}  {}", padded(name, name_width), format::number(*value));
        }
    }
    table.push('\n');
    table
}

/// Group, then name and value within it, each in order of appearance.
fn grouped(values: &[(String, f64)]) -> IndexMap<&str, Vec<(&str, f64)>> {
    let mut groups: IndexMap<&str, Vec<(&str, f64)>> = IndexMap::new();
    for (name, value) in values {
        let (group, name) = name.split_once('/').unwrap_or(("", name));
        groups.entry(group).or_default().push((name, *value));
    }
    groups
}

fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

/// `2026-08-01 12:34:56`.
fn local(stamp: Stamp, zone: TimeZone) -> String {
    let when = jiff::Timestamp::from_second(stamp.wall_secs as i64).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    when.to_zoned(zone).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_gathered_and_columns_align() {
        let stamp = Stamp { wall_secs: 1_785_587_696.9, elapsed_secs: 724.0 };
        let values =
            [("env/return", 12.4), ("train/actor/loss", 0.001_234), ("env/success_once", 1.0), ("lr", 3e-4)];
        let values = values.map(|(name, value)| (name.to_owned(), value));
        let table = table(stamp, 1200, &values);
        let (head, body) = table.split_once('\n').unwrap();
        assert_eq!(head, format!("step 1,200 · {} · 12m 04s", local(stamp, TimeZone::system())));
        assert_eq!(local(stamp, TimeZone::UTC), "2026-08-01 12:34:56");
        let expected = [
            "  env     return        12.40",
            "          success_once  1",
            "  train   actor/loss    0.001234",
            "          lr            3.00e-4",
            "",
            "",
        ];
        assert_eq!(body, expected.join("\n"));
    }
}
