//! The frames whose label an image can show, where success also needs conditions on the state.

use plaudit_data::labelled::LabelledData;

use crate::shaping::{GuardError, StateConditions};

/// A frame more than so many entries before success is no success by what it shows, too: conditions on the state are what comes last.
const LONG_BEFORE: usize = 10;

/// Leaves out frames in which a condition does not hold, and which may look like success all the same: a cube at the goal, under an
/// arm that still moves. Those long before the first success of their episode stay; they are failures for all to see, and without
/// them a model learns that most frames are successes. Says in how many frames the conditions hold. What is left has gaps, so no
/// frame has a history.
///
/// # Errors
/// When a condition is none on such states.
pub fn keep_decidable(data: &mut LabelledData, conditions: &StateConditions) -> Result<usize, GuardError> {
    let guards = conditions.parse()?;
    let mut held = 0;
    for episode in &mut data.episodes {
        let success = episode.frames.iter().find(|frame| frame.success).map(|frame| frame.at);
        let mut holds = |state: &Option<Vec<f32>>| {
            let state = state.as_ref().filter(|state| state.len() == conditions.state_width);
            let holds = state.is_some_and(|state| guards.iter().all(|guard| guard.holds_in(state)));
            held += usize::from(holds);
            holds
        };
        episode.frames.retain(|frame| {
            holds(&frame.state) || success.is_some_and(|success| frame.at + LONG_BEFORE < success)
        });
    }
    data.episodes.retain(|episode| !episode.frames.is_empty());
    data.has_history = false;
    Ok(held)
}
