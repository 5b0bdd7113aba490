//! Conditions on the state that a model leaves to whoever rewards by it.
//!
//! A robot knows how fast its joints turn; no image shows it as well. A model that is trained for states in which such conditions
//! hold says nothing about the others, so its checkpoint carries them: an audit counts by them, and a reward checks them.

use serde::{Deserialize, Serialize};

use super::guard::{Guard, GuardError};

/// Conditions on states of one layout, in the words of [`Guard::parse`] without names of parts: `abs(state[9:16]) < 0.2`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateConditions {
    /// All of them must hold.
    pub guards: Vec<String>,
    /// How many numbers a state has.
    pub state_width: usize,
}

impl StateConditions {
    /// As something that can be asked about states.
    ///
    /// # Errors
    /// When one is no condition on such states.
    pub fn parse(&self) -> Result<Vec<Guard>, GuardError> {
        self.guards.iter().map(|text| Guard::parse(text, &[], self.state_width)).collect()
    }

    /// What they are, for people.
    #[must_use]
    pub fn text(&self) -> String {
        self.guards.iter().map(|guard| format!("`{guard}`")).collect::<Vec<_>>().join(" and ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_on_numbers_of_a_state_and_on_nothing_else() {
        let conditions = StateConditions { guards: vec!["abs(state[1:3]) <= 0.2".into()], state_width: 4 };
        let guards = conditions.parse().unwrap();
        assert!(guards.iter().all(|guard| guard.holds_in(&[9.0, -0.2, 0.1, 9.0])));
        assert!(!guards.iter().all(|guard| guard.holds_in(&[0.0, -0.3, 0.1, 0.0])));
        for wrong in ["abs(state[1:9]) < 0.2", "qvel < 0.2", "state[0] is small"] {
            let conditions = StateConditions { guards: vec![wrong.into()], state_width: 4 };
            assert!(conditions.parse().is_err(), "{wrong}");
        }
    }
}
