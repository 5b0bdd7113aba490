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

#[cfg(test)]
mod tests {
    use plaudit_data::labelled::{LabelledEpisode, LabelledFrame};
    use plaudit_data::recording::DatasetFormat;

    use super::*;

    /// Episodes of (speed, success) by frame.
    fn data(episodes: &[Vec<(f32, bool)>]) -> LabelledData {
        let frame = |(at, (speed, success)): (usize, &(f32, bool))| LabelledFrame {
            images: Vec::new(),
            success: *success,
            at,
            state: Some(vec![*speed]),
        };
        let episode = |frames: &Vec<(f32, bool)>| LabelledEpisode {
            name: String::new(),
            folder: String::new(),
            frames: frames.iter().enumerate().map(frame).collect(),
        };
        LabelledData {
            path: "episodes".into(),
            format: DatasetFormat::Episodes,
            cameras: Vec::new(),
            episodes: episodes.iter().map(episode).collect(),
            in_episodes: true,
            has_history: true,
            skipped: Vec::new(),
        }
    }

    #[test]
    fn frames_that_only_look_like_success_are_left_out() {
        let moves_until = |success: usize| -> Vec<(f32, bool)> {
            (0..15).map(|at| (if at < success { 1.0 } else { 0.0 }, at >= success)).collect()
        };
        let never = vec![(1.0, false); 5];
        let mut read = data(&[moves_until(13), never, vec![(0.0, false), (1.0, false)]]);
        let conditions = StateConditions { guards: vec!["abs(state[0]) < 0.2".into()], state_width: 1 };
        assert_eq!(keep_decidable(&mut read, &conditions).unwrap(), 3);
        let left: Vec<Vec<usize>> = read
            .episodes
            .iter()
            .map(|episode| episode.frames.iter().map(|frame| frame.at).collect())
            .collect();
        // Long before success at 13; at rest; and of the second episode nothing, of which nobody can say how it looks.
        assert_eq!(left, [vec![0, 1, 2, 13, 14], vec![0]]);
        assert!(!read.has_history);
        let other = StateConditions { state_width: 2, ..conditions };
        assert_eq!(keep_decidable(&mut read, &other).unwrap(), 0, "states of another layout");
    }
}
