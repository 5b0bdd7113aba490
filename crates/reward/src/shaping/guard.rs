//! Conditions on the numbers of a state, as people write them: `obj_pose.z > 0.04`, `gripper closed`.
//!
//! ```text
//! guard  = value op number | ["not"] value | value ("closed" | "open")
//! value  = place | "abs(" place ")"
//! place  = name [ "." axis | "[" index "]" | "[" from ":" to "]" ]
//! op     = "<" | "<=" | ">" | ">=" | "==" | "!="
//! axis   = "x" | "y" | "z" | "qw" | "qx" | "qy" | "qz"
//! ```
//!
//! A name is a part of the state that the environment names, or `state` for all of it. A place of several numbers holds
//! when each of them does. A value alone holds unless it is 0.

use std::ops::Range;

use plaudit_core::{ObsRow, StatePart};
use thiserror::Error;

/// Fingers that are open less than this, each, are closed: on nothing, or on something thin enough to hold.
const CLOSED_BELOW_METRES: f32 = 0.03;
/// The numbers of a pose, in order.
const AXES: [&str; 7] = ["x", "y", "z", "qw", "qx", "qy", "qz"];
/// Longest first, so that `<=` is not read as `<`.
const OPERATORS: [(&str, Operator); 6] = [
    ("<=", Operator::AtMost),
    (">=", Operator::AtLeast),
    ("==", Operator::Equal),
    ("!=", Operator::Different),
    ("<", Operator::Below),
    (">", Operator::Above),
];

/// A condition on the state.
#[derive(Debug, Clone, PartialEq)]
pub struct Guard {
    numbers: Range<usize>,
    absolute: bool,
    operator: Operator,
    bound: f32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Below,
    AtMost,
    Above,
    AtLeast,
    Equal,
    Different,
}

impl Operator {
    fn holds(self, value: f32, bound: f32) -> bool {
        match self {
            Self::Below => value < bound,
            Self::AtMost => value <= bound,
            Self::Above => value > bound,
            Self::AtLeast => value >= bound,
            Self::Equal => value == bound,
            Self::Different => value != bound,
        }
    }
}

impl Guard {
    /// Reads a condition on states of `width` numbers with these parts.
    pub fn parse(text: &str, parts: &[StatePart], width: usize) -> Result<Self, GuardError> {
        let states = States { parts, width };
        let text = text.trim();
        if let Some((at, word, operator)) = find_operator(text) {
            let (value, number) = (&text[..at], text[at + word.len()..].trim());
            let bound = number.parse().ok().filter(|bound: &f32| bound.is_finite());
            let bound =
                bound.ok_or_else(|| GuardError::Number { text: text.into(), found: number.into() })?;
            return states.guard(value, operator, bound);
        }
        match text.split_whitespace().collect::<Vec<_>>()[..] {
            [value, "closed"] => states.guard(value, Operator::Below, CLOSED_BELOW_METRES),
            [value, "open"] => states.guard(value, Operator::AtLeast, CLOSED_BELOW_METRES),
            ["not", value] => states.guard(value, Operator::Equal, 0.0),
            [value] => states.guard(value, Operator::Different, 0.0),
            _ => Err(GuardError::Unclear { text: text.into() }),
        }
    }

    /// Whether it holds in this state.
    pub fn holds(&self, obs: &ObsRow<'_>) -> bool {
        self.holds_in(obs.state)
    }

    /// Whether it holds in a state of the width that it was read for.
    ///
    /// # Panics
    /// If the state is shorter than that.
    #[must_use]
    pub fn holds_in(&self, state: &[f32]) -> bool {
        let value = |number: &f32| if self.absolute { number.abs() } else { *number };
        state[self.numbers.clone()].iter().all(|number| self.operator.holds(value(number), self.bound))
    }
}

/// The first operator of a text.
fn find_operator(text: &str) -> Option<(usize, &'static str, Operator)> {
    let places = OPERATORS.iter().filter_map(|(word, operator)| Some((text.find(word)?, *word, *operator)));
    places.min_by_key(|(at, word, _)| (*at, std::cmp::Reverse(word.len())))
}

/// What names mean.
struct States<'a> {
    parts: &'a [StatePart],
    width: usize,
}

impl States<'_> {
    fn guard(&self, value: &str, operator: Operator, bound: f32) -> Result<Guard, GuardError> {
        let value = value.trim();
        let inner = value.strip_prefix("abs(").and_then(|rest| rest.strip_suffix(')'));
        let numbers = self.place(inner.unwrap_or(value).trim())?;
        Ok(Guard { numbers, absolute: inner.is_some(), operator, bound })
    }

    /// The numbers that `place` names.
    fn place(&self, place: &str) -> Result<Range<usize>, GuardError> {
        let (name, within) = match place.find(['.', '[']) {
            Some(at) => place.split_at(at),
            None => (place, ""),
        };
        let whole = self.part(name)?;
        let numbers = if let Some(axis) = within.strip_prefix('.') {
            AXES.iter().position(|known| *known == axis).map(|at| at..at + 1)
        } else if let Some(index) = within.strip_prefix('[') {
            index.strip_suffix(']').and_then(|index| slice(index, whole.len()))
        } else {
            Some(0..whole.len())
        };
        match numbers.filter(|numbers| !numbers.is_empty() && numbers.end <= whole.len()) {
            Some(numbers) => Ok(whole.start + numbers.start..whole.start + numbers.end),
            None => Err(GuardError::Within { place: place.into(), name: name.into(), numbers: whole.len() }),
        }
    }

    fn part(&self, name: &str) -> Result<Range<usize>, GuardError> {
        if name == "state" {
            return Ok(0..self.width);
        }
        let known =
            || self.parts.iter().map(|part| &*part.name).chain(["state"]).collect::<Vec<_>>().join(", ");
        let part = self.parts.iter().find(|part| &*part.name == name);
        let part = part.ok_or_else(|| GuardError::Name { name: name.into(), known: known() })?;
        Ok(part.range.clone())
    }
}

/// `3`, `-1`, `2:5`, `:7` or `7:`, of `length` numbers, as Python counts them.
fn slice(text: &str, length: usize) -> Option<Range<usize>> {
    let number = |text: &str, default: usize| match text.trim() {
        "" => Some(default),
        text => match text.parse::<isize>().ok()? {
            at if at < 0 => length.checked_sub(at.unsigned_abs()),
            at => Some(at.unsigned_abs()),
        },
    };
    match text.split_once(':') {
        Some((from, to)) => Some(number(from, 0)?..number(to, length)?),
        None => {
            let at = number(text, length)?;
            Some(at..at + 1)
        }
    }
}

/// A condition that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GuardError {
    /// Nothing like a condition.
    #[error("`{text}` is no condition; write such as `obj_pose.z > 0.04`, `gripper closed` or `is_grasped`")]
    Unclear {
        /// What was written.
        text: String,
    },
    /// No number after the operator.
    #[error("`{text}` compares with `{found}`, which is no number")]
    Number {
        /// What was written.
        text: String,
        /// What stands for the number.
        found: String,
    },
    /// A name that the state does not have.
    #[error("the state has no part `{name}`; it has {known}")]
    Name {
        /// The name.
        name: String,
        /// Those it has.
        known: String,
    },
    /// Numbers that the part does not have.
    #[error("`{place}`: `{name}` has {numbers} numbers, 0 to {}; write `{name}[0]` for the first", numbers - 1)]
    Within {
        /// What was written.
        place: String,
        /// The part.
        name: String,
        /// How many numbers it has.
        numbers: usize,
    },
}

#[cfg(test)]
mod tests {
    use plaudit_core::Obs;

    use super::*;

    fn parts() -> Vec<StatePart> {
        let part = |name: &str, range| StatePart { name: name.into(), range };
        vec![part("gripper", 0..2), part("is_grasped", 2..3), part("tcp_pose", 3..10)]
    }

    /// Fingers 2 cm open on a grasped thing; the tool is 5 cm high.
    const STATE: [f32; 10] = [0.02, 0.021, 1.0, 0.1, -0.2, 0.05, 1.0, 0.0, 0.0, 0.0];

    #[test]
    fn conditions_read_as_people_write_them() {
        let obs = Obs::from_state(1, STATE.to_vec()).unwrap();
        for (text, expected) in [
            ("gripper closed", true),
            ("gripper open", false),
            ("is_grasped", true),
            ("not is_grasped", false),
            ("tcp_pose.z > 0.04", true),
            ("tcp_pose.z>0.05", false),
            ("tcp_pose.z >= 0.05", true),
            (" tcp_pose[1] <= -0.2 ", true),
            ("tcp_pose[-1] == 0", true),
            ("tcp_pose.qw != 0", true),
            ("abs(tcp_pose[:2]) < 0.3", true),
            ("tcp_pose[0:2] > 0", false),
            ("abs( tcp_pose[0:2] ) > 0", true),
            ("state[5] < 5e-2", false),
            ("state[0:2] < 0.0205", false),
        ] {
            let guard = Guard::parse(text, &parts(), 10).unwrap();
            assert_eq!(guard.holds(&obs.row(0)), expected, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_what_could_be() {
        for (text, expected) in [
            ("height > 1", "the state has no part `height`; it has gripper, is_grasped, tcp_pose, state"),
            (
                "tcp_pose.w > 1",
                "`tcp_pose.w`: `tcp_pose` has 7 numbers, 0 to 6; write `tcp_pose[0]` for the first",
            ),
            (
                "gripper[2] > 1",
                "`gripper[2]`: `gripper` has 2 numbers, 0 to 1; write `gripper[0]` for the first",
            ),
            (
                "gripper[1:1] > 1",
                "`gripper[1:1]`: `gripper` has 2 numbers, 0 to 1; write `gripper[0]` for the first",
            ),
            (
                "gripper[-3] > 1",
                "`gripper[-3]`: `gripper` has 2 numbers, 0 to 1; write `gripper[0]` for the first",
            ),
            (
                "gripper.z > 1",
                "`gripper.z`: `gripper` has 2 numbers, 0 to 1; write `gripper[0]` for the first",
            ),
            ("gripper > wide", "`gripper > wide` compares with `wide`, which is no number"),
            ("gripper > nan", "`gripper > nan` compares with `nan`, which is no number"),
            (
                "gripper nearly closed",
                "`gripper nearly closed` is no condition; write such as `obj_pose.z > 0.04`, `gripper closed` or `is_grasped`",
            ),
            ("", "`` is no condition; write such as `obj_pose.z > 0.04`, `gripper closed` or `is_grasped`"),
        ] {
            assert_eq!(Guard::parse(text, &parts(), 10).unwrap_err().to_string(), expected);
        }
    }
}
