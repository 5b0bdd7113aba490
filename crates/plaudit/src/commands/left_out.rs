//! What is said of episodes and files that were left out of a dataset: the same by every command.

use plaudit_data::convert::BadFile;

/// So many are named unless somebody wants to see all.
const NAMED: usize = 5;

/// How many there are, and which; nothing where there are none.
pub fn left_out(skipped: &[BadFile], all: bool) -> Option<String> {
    if skipped.is_empty() {
        return None;
    }
    let mut text = format!("note: {} file(s) were left out:", skipped.len());
    let shown = if all { skipped.len() } else { NAMED.min(skipped.len()) };
    for BadFile { path, problem } in &skipped[..shown] {
        text += &format!("\n  {}: {}", path.display(), problem.with_hint());
    }
    if skipped.len() > shown {
        text += &format!("\n  … and {} more (`plaudit dataset verify` shows all)", skipped.len() - shown);
    }
    Some(text)
}
