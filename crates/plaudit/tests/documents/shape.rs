//! Whether an output that a document shows is that of a run, whose numbers differ.

/// The first shown line that the run did not say, in this order. `…` stands for anything; lines that begin in one of
/// the other ways are not compared.
pub(crate) fn first_missing<'a>(shown: &'a str, said: &str, others: &[&str]) -> Option<&'a str> {
    let said: Vec<String> = said.lines().map(masked).collect();
    let mut next = 0;
    let is_compared = |line: &&str| {
        !line.trim().is_empty() && line.trim() != "…" && !others.iter().any(|other| line.starts_with(other))
    };
    for line in shown.lines().filter(is_compared) {
        let pattern = masked(line);
        match said[next..].iter().position(|said| is_like(&pattern, said)) {
            Some(at) => next += at + 1,
            None => return Some(line),
        }
    }
    None
}

/// A line whose numbers are all the same, and whose words have one blank between them.
fn masked(line: &str) -> String {
    let mut masked = String::new();
    let mut letters = line.trim().chars().peekable();
    while let Some(letter) = letters.next() {
        let starts = masked.is_empty() || masked.ends_with([' ', '(', '[']);
        let is_sign = letter == '-' && starts && letters.peek().is_some_and(char::is_ascii_digit);
        if letter.is_ascii_digit() || is_sign {
            while letters.next_if(|&next| next.is_ascii_digit() || ".,".contains(next)).is_some() {}
            masked.push('#');
        } else if !(letter == ' ' && masked.ends_with(' ')) {
            masked.push(letter);
        }
    }
    // How long and how fast something was changes units with the machine.
    let units =
        [("#e-#", "#"), ("NaN", "#"), ("#m #s", "#s"), ("#h #m", "#s"), ("/min ", "/s "), ("/h ", "/s ")];
    units.iter().fold(masked, |line, (unit, one)| line.replace(unit, one))
}

/// Whether a line is what a pattern with `…` says.
fn is_like(pattern: &str, line: &str) -> bool {
    let pieces: Vec<&str> = pattern.split('…').collect();
    let (first, last) = (pieces[0].trim_end(), pieces[pieces.len() - 1].trim_start());
    if pieces.len() == 1 {
        return line == pattern;
    }
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    for piece in &pieces[1..pieces.len() - 1] {
        match rest.find(piece.trim()) {
            Some(at) => rest = &rest[at + piece.trim().len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[test]
fn an_output_is_like_another_but_for_its_numbers() {
    let said = "info: 6 episodes in here\nrun 0.1s · 6 episodes · done · a/b 0.98 · c 1e-5 · d 2\n  AUC   0.5 (-0.4 to 1)\n";
    for (shown, missing) in [
        ("info: 40 episodes in here\nrun 12s · 40 episodes · done · a/b 1 · …", None),
        ("run 12s · … · c 0.3 · d 12", None),
        ("…\n  AUC 0.9 (0.8 to 0.95)", None),
        ("run 12s · … · e 0.3 · …", Some("run 12s · … · e 0.3 · …")),
        ("AUC 0.9 (0.8 to 0.95)\ninfo: 40 episodes in here", Some("info: 40 episodes in here")),
        ("run 1m 12s · 40 episodes · …", None),
        ("other things\nrun 12s · …", None),
        ("info: 40 episodes", Some("info: 40 episodes")),
    ] {
        assert_eq!(first_missing(shown, said, &["other"]), missing, "{shown}");
    }
}
