//! The numbers a key takes, as its declaration says: checked where they were written, and shown in docs/config.md.

use plaudit_compose::{ComposeError, Node};

use super::block::{BlockDoc, Kind, Setting};
use super::{Config, check, edit};

/// Which numbers a key takes; in a list, each of its numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Range {
    /// This or more.
    AtLeast(f64),
    /// More than this.
    Above(f64),
    /// From one to the other, both included.
    Within(f64, f64),
    /// More than the first, and at most the second.
    AboveTo(f64, f64),
    /// 0 or more, or -1, whose meaning stands here.
    CountOr(&'static str),
    /// Channels, height and width of an image.
    ImageSize,
}

/// No network for images is built for larger ones.
const MAX_SIDE: f64 = 4096.0;

/// A share of something.
pub(crate) const SHARE: Range = Range::Within(0.0, 1.0);
/// A number of things of which there is at least one.
pub(crate) const AT_LEAST_ONE: Range = Range::AtLeast(1.0);
/// Not below zero.
pub(crate) const NOT_NEGATIVE: Range = Range::AtLeast(0.0);
/// Threads that can be asked for.
pub(crate) const THREADS: Range = Range::Within(0.0, 1024.0);
/// Above zero.
pub(crate) const POSITIVE: Range = Range::Above(0.0);

/// Why a number is refused, and what would not be.
struct Refusal {
    message: String,
    hint: String,
}

impl Range {
    /// How documentation puts it, after the type.
    pub fn words(self) -> String {
        match self {
            Self::AtLeast(low) => format!("{low} or more"),
            Self::Above(low) => format!("above {low}"),
            Self::Within(low, high) => format!("{low} to {high}"),
            Self::AboveTo(low, high) => format!("above {low}, up to {high}"),
            Self::CountOr(_) => "-1 or more".into(),
            Self::ImageSize => format!("each 1 to {MAX_SIDE}"),
        }
    }

    fn refusal(self, numbers: &[f64]) -> Option<Refusal> {
        match (self, numbers) {
            (Self::ImageSize, [height, width, 3.0]) if *height != 3.0 => Some(Refusal {
                message: format!(
                    "[{height}, {width}, 3] is height, width, channels; channels come first here"
                ),
                hint: format!("[3, {height}, {width}] was probably meant"),
            }),
            (Self::ImageSize, size) if size.iter().any(|side| *side > MAX_SIDE) => Some(Refusal {
                message: format!("an image of {size:?} is larger than {MAX_SIDE} pixels a side"),
                hint: "images are resized to this; 128 or 224 are usual".into(),
            }),
            (Self::ImageSize, size) => size.iter().any(|side| *side < 1.0).then(|| Refusal {
                message: format!("an image of {size:?} shows nothing"),
                hint: "write channels, height and width, such as [3, 128, 128]".into(),
            }),
            _ => numbers.iter().find_map(|number| self.refusal_of(*number)),
        }
    }

    /// Numbers that are not one (NaN) are refused everywhere, with words of their own.
    fn refusal_of(self, number: f64) -> Option<Refusal> {
        let (is_inside, message, hint) = match self {
            Self::AtLeast(low) => (number >= low, "is too small".into(), format!("choose {low} or more")),
            Self::Above(low) => (number > low, "is too small".into(), format!("choose more than {low}")),
            Self::Within(low, high) => (
                (low..=high).contains(&number),
                format!("is outside {low} to {high}"),
                format!("choose a number from {low} to {high}"),
            ),
            Self::AboveTo(low, high) => (
                number > low && number <= high,
                format!("is not above {low} and at most {high}"),
                format!("choose a number above {low} and at most {high}"),
            ),
            Self::CountOr(none) => {
                (number >= -1.0, "is no count".into(), format!("choose 0 or more, or -1: {none}"))
            }
            Self::ImageSize => return None,
        };
        (!is_inside).then(|| Refusal { message: format!("{number} {message}"), hint })
    }
}

/// Refuses the first number outside the range of its key.
pub(crate) fn check_written(tree: &Node) -> Result<(), ComposeError> {
    each_range(&Config::kind(), String::new(), tree, &mut |path, range, node| match range
        .refusal(&numbers(node))
    {
        Some(Refusal { message, hint }) => Err(check::problem(tree, path, message, &hint)),
        None => Ok(()),
    })
}

type Visit<'a> = dyn FnMut(&str, Range, &Node) -> Result<(), ComposeError> + 'a;

/// Visits every written key that has a range.
fn each_range(kind: &Kind, path: String, node: &Node, visit: &mut Visit) -> Result<(), ComposeError> {
    let below = |key: &str| if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
    match kind {
        Kind::Block(block) => in_block(block, node, &below, visit),
        Kind::List(inner) => {
            let items = node.as_list().unwrap_or_default().iter().enumerate();
            items
                .into_iter()
                .try_for_each(|(at, item)| each_range(inner, below(&at.to_string()), item, visit))
        }
        Kind::Names(inner) => {
            let entries = node.as_map().into_iter().flatten();
            entries
                .into_iter()
                .try_for_each(|(key, item)| each_range(inner, below(&key.to_string()), item, visit))
        }
        Kind::Plain(_) | Kind::Choice(_) => Ok(()),
    }
}

fn in_block(
    block: &BlockDoc,
    node: &Node,
    below: &dyn Fn(&str) -> String,
    visit: &mut Visit,
) -> Result<(), ComposeError> {
    for field in &block.fields {
        let name = field.name.trim_start_matches("r#");
        let Some(value) = edit::get(node, name) else { continue };
        if let Some(range) = field.range {
            visit(&below(name), range, value)?;
        }
        each_range(&field.kind, below(name), value, visit)?;
    }
    Ok(())
}

/// The number at a node, or those of its list.
fn numbers(node: &Node) -> Vec<f64> {
    match node.as_list() {
        Some(items) => items.iter().filter_map(Node::as_f64).collect(),
        None => node.as_f64().into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use plaudit_compose::parse_yaml;

    use super::*;

    fn refused(text: &str) -> String {
        let tree = parse_yaml("my.yaml", text).unwrap();
        check_written(&tree).map_or_else(|error| error.to_string(), |()| "accepted".into())
    }

    fn check(text: &str, expected: &str) {
        let said = refused(text);
        assert!(said.contains(expected), "{text}: {said}");
    }

    #[test]
    fn numbers_below_and_above_are_refused_where_they_stand() {
        check("algorithm:\n  gamma: 1.5\n", "1.5 is outside 0 to 1");
        check("algorithm:\n  gamma: 1.5\n", "my.yaml:2:");
        check("algorithm:\n  gamma: 1.5\n", "algorithm.gamma");
        check("algorithm: {gamma: -0.1}", "-0.1 is outside 0 to 1");
        check("env: {eval: {data_collection: {sample_rate_fail: 1.5}}}", "1.5 is outside 0 to 1");
        check("env: {train: {data_collection: {sample_rate_success: -1}}}", "-1 is outside 0 to 1");
        check("env: {eval: {total_num_envs: 0}}", "0 is outside 1 to 1000000");
        check("env: {eval: {total_num_envs: 1e9}}", "outside 1 to 1000000");
        check("actor: {model: {image_size: [3, 100000, 100000]}}", "larger than 4096 pixels a side");
        check("actor: {optim: {lr: -1e-3}}", "-0.001 is too small");
        check("actor: {model: {hidden_sizes: [256, 0]}}", "0 is too small");
        check("actor: {model: {image_size: [128, 64, 3]}}", "[3, 128, 64] was probably meant");
        check("actor: {model: {image_size: [3, 0, 64]}}", "shows nothing");
        check("reward: {terms: {mine: {reward_threshold: 2}}}", "2 is outside 0 to 1");
        check("reward: {terms: {mine: {reward_threshold: 2}}}", "reward.terms.mine.reward_threshold");
        check("reward: {model: {label_temperature: 0}}", "choose more than 0");
        check("runner: {max_steps: -2}", "-2 is no count");
        check(
            "algorithm: {gamma: 1, tau: 0}\nrunner: {max_steps: -1}\nenv: {eval: {total_num_envs: null}}",
            "accepted",
        );
    }

    #[test]
    fn defaults_are_inside_their_ranges() {
        let defaults = serde_json::to_string(&Config::default()).unwrap();
        assert_eq!(refused(&defaults), "accepted", "JSON is YAML");
    }
}
