//! Ranks as people write them: `0`, `0-3`, `0,2`, `all`, and with processes after a colon.

use super::error::Problem;

/// The most ranks that one text may name: bounds what is allocated for a slip such as `0-99999999`.
pub const MOST_RANKS: usize = 1 << 16;

/// The ranks that a text names, among `count` of a kind.
pub fn ranks(text: &str, count: usize, kind: &'static str) -> Result<Vec<usize>, Problem> {
    let mut found = Vec::new();
    for part in parts(text)? {
        found.extend(range(part, count, kind)?);
    }
    no_duplicates(&found, kind)?;
    Ok(found)
}

/// For each process, in the order of their ranks, the places it has. The places are `count` of a kind.
pub fn processes_by_place(text: &str, count: usize, kind: &'static str) -> Result<Vec<Vec<usize>>, Problem> {
    let (mut by_process, mut places) = (Vec::new(), Vec::new());
    for part in parts(text)? {
        let (place_text, process_text) = match part.split_once(':') {
            Some((place, process)) => (place, Some(process)),
            None => (part, None),
        };
        let here = range(place_text, count, kind)?;
        if let (Some(&before), Some(&rank)) = (places.last(), here.first())
            && rank < before
        {
            return Err(Problem::NotAscending { kind, rank, before });
        }
        let processes = match process_text {
            None => here.len(),
            Some(text) => process_count(text, by_process.len())?,
        };
        by_process.extend(spread(&here, processes, part)?);
        places.extend(here);
    }
    no_duplicates(&places, kind)?;
    Ok(by_process)
}

fn parts(text: &str) -> Result<Vec<&str>, Problem> {
    let parts: Vec<&str> = text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    if parts.is_empty() {
        return Err(Problem::NotRanks { text: text.into() });
    }
    Ok(parts)
}

/// `all`, `3` or `0-3`, of `count` that there are.
fn range(text: &str, count: usize, kind: &'static str) -> Result<Vec<usize>, Problem> {
    if text.trim() == "all" {
        return Ok((0..count).collect());
    }
    let (first, last) = bounds(text)?;
    if last >= count {
        return Err(Problem::NoSuchRank { kind, rank: first.max(count), there: numbered(kind, count) });
    }
    Ok((first..=last).collect())
}

/// What there is of a kind, in words.
pub(super) fn numbered(kind: &str, count: usize) -> String {
    match count {
        0 => format!("there is no {kind}"),
        1 => format!("there is one {kind}, 0"),
        _ => format!("there are {count}, 0 to {}", count - 1),
    }
}

fn bounds(text: &str) -> Result<(usize, usize), Problem> {
    let number = |part: &str| {
        part.trim().parse::<usize>().map_err(|_| Problem::NotRanks { text: text.trim().to_string() })
    };
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(text)?, number(text)?),
    };
    if first > last {
        return Err(Problem::Backwards { first, last });
    }
    if last - first >= MOST_RANKS {
        return Err(Problem::TooMany { text: text.trim().to_string(), most: MOST_RANKS });
    }
    Ok((first, last))
}

/// How many processes `0-7` is, where `expected` is the rank that comes next.
fn process_count(text: &str, expected: usize) -> Result<usize, Problem> {
    if text.contains(':') {
        return Err(Problem::NotRanks { text: text.trim().to_string() });
    }
    let (first, last) = bounds(text)?;
    if first != expected {
        return Err(Problem::ProcessGap { expected, found: first, text: text.trim().to_string() });
    }
    Ok(last - first + 1)
}

/// Several processes on each place, or several places for each process.
fn spread(places: &[usize], processes: usize, text: &str) -> Result<Vec<Vec<usize>>, Problem> {
    let uneven = || Problem::Uneven { processes, places: places.len(), text: text.to_string() };
    if places.is_empty() {
        return Err(uneven());
    }
    if processes >= places.len() {
        let each = processes / places.len();
        let shared = places.iter().flat_map(|place| std::iter::repeat_n(vec![*place], each));
        return if processes.is_multiple_of(places.len()) { Ok(shared.collect()) } else { Err(uneven()) };
    }
    if !places.len().is_multiple_of(processes) {
        return Err(uneven());
    }
    Ok(places.chunks(places.len() / processes).map(<[usize]>::to_vec).collect())
}

fn no_duplicates(ranks: &[usize], kind: &'static str) -> Result<(), Problem> {
    let mut sorted = ranks.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Problem::GivenTwice { kind, rank: pair[0] }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_processes_are_read_as_rlinf_reads_them() {
        let cases: &[(&str, &[&[usize]])] = &[
            ("0", &[&[0]]),
            ("0-0", &[&[0]]),
            (" 0 - 2 ", &[&[0], &[1], &[2]]),
            ("0,2", &[&[0], &[2]]),
            ("all", &[&[0], &[1], &[2], &[3], &[4], &[5]]),
            ("0-1:0-3", &[&[0], &[0], &[1], &[1]]),
            ("0-3:0-1", &[&[0, 1], &[2, 3]]),
            ("0-1:0", &[&[0, 1]]),
            ("0:0-2", &[&[0], &[0], &[0]]),
            // Without ranks of their own, processes follow on: 4 and 5 here.
            ("0-1:0-3,3-4,5:6-7", &[&[0], &[0], &[1], &[1], &[3], &[4], &[5], &[5]]),
            ("0,", &[&[0]]),
        ];
        for (text, expected) in cases {
            let found = processes_by_place(text, 6, "GPU").unwrap();
            assert_eq!(found, *expected, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_is_named() {
        let cases = [
            ("", "`` names no places"),
            ("x", "`x` names no places"),
            ("-1", "`-1` names no places"),
            ("1.5", "`1.5` names no places"),
            ("0:1:2", "`1:2` names no places"),
            ("3-1", "the range 3-1 runs backwards"),
            ("0-99999999999", "names more than 65536 ranks"),
            ("0-6", "there is no GPU 6: there are 6, 0 to 5"),
            ("9", "there is no GPU 9: there are 6, 0 to 5"),
            ("0-2,2", "GPU 2 is given twice"),
            ("3,0", "GPU 0 stands after 3"),
            ("0-3:0-2", "3 processes cannot be spread evenly over 4 places (`0-3:0-2`)"),
            ("0:1-2", "process 0 is left out"),
            ("0:0-1,1:3", "process 2 is left out"),
            ("0:all", "`all` names no places"),
        ];
        for (text, expected) in cases {
            let problem = processes_by_place(text, 6, "GPU").unwrap_err().to_string();
            assert!(problem.contains(expected), "{text}: {problem}");
        }
        assert_eq!(ranks("0-1,3", 4, "machine").unwrap(), [0, 1, 3]);
        assert!(ranks("0,0", 4, "machine").unwrap_err().to_string().contains("given twice"));
    }

    proptest::proptest! {
        /// Whatever is written: an answer, no panic; and the processes of an answer have places that exist.
        #[test]
        fn any_text_is_answered(text in "[0-9,:a-l -]{0,12}", count in 0usize..9) {
            if let Ok(by_process) = processes_by_place(&text, count, "GPU") {
                proptest::prop_assert!(!by_process.is_empty());
                for place in by_process.iter().flatten() {
                    proptest::prop_assert!(*place < count);
                }
            }
        }
    }
}
