//! What people did when they took over, cut out of a rollout: each subsegment is a demonstration.

use std::ops::Range;

use plaudit_core::Segment;

use crate::Experience;
use crate::replay::NewRollout;
use crate::subsegment::labelled_subsegment;

/// Every run of steps in which a person acted, row by row, with the rewards of the rollout.
pub(crate) fn interventions(experience: &Experience) -> Vec<NewRollout> {
    let Experience { segment, decisions, .. } = experience;
    if !decisions.intervened.contains(&true) {
        return Vec::new();
    }
    let rows = 0..segment.batch();
    let subsegments = rows.flat_map(|row| {
        subsegments(segment, &decisions.intervened, row).into_iter().map(move |steps| (row, steps))
    });
    subsegments.filter_map(|(row, steps)| labelled_subsegment(experience, row, steps)).collect()
}

/// Where a person acted in one row, from taking over to letting go or to the end of an episode.
fn subsegments(segment: &Segment, intervened: &[bool], row: usize) -> Vec<Range<usize>> {
    let (mut found, mut first) = (Vec::new(), None);
    for t in 0..segment.steps() {
        let at = segment.at(t, row);
        match (intervened[at], first) {
            (true, None) => first = Some(t),
            (false, Some(begun)) => {
                found.push(begun..t);
                first = None;
            }
            _ => {}
        }
        if segment.end[at].is_end() {
            found.extend(first.take().map(|begun| begun..t + 1));
        }
    }
    found.extend(first.map(|begun| begun..segment.steps()));
    found
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plaudit_core::{End, EnvReward, Obs, Reward, StepRow};

    use super::*;
    use crate::Decisions;

    /// Two environments of five steps; row 1 ends its episode at step 2.
    fn experience(intervened: [[bool; 2]; 5]) -> Experience {
        let state = |t: f32| Obs::from_state(2, vec![t, 10.0 + t]).unwrap();
        let before = vec![Arc::new(state(-1.0))];
        let mut segment = Segment::continuing(state(0.0), before, vec![4, 1]);
        for t in 0..5 {
            let end = if t == 2 { vec![End::No, End::Terminated] } else { vec![End::No; 2] };
            let last = if t == 2 { vec![(1, Obs::from_state(1, vec![99.0]).unwrap())] } else { vec![] };
            let (actions, env_reward) = (vec![t as f32, -(t as f32)], vec![t as f32, 100.0 + t as f32]);
            let step = StepRow { actions, env_reward, end, success: vec![false; 2] };
            segment.push(step, state(t as f32 + 1.0), last).unwrap();
        }
        let reward = EnvReward.label(&segment).unwrap();
        let decisions = Decisions { intervened: intervened.concat(), ..Decisions::default() };
        Experience { segment, decisions, reward }
    }

    #[test]
    fn each_subsegment_is_a_demonstration_of_its_own() {
        let (yes, no) = (true, false);
        let found = interventions(&experience([[no, no], [yes, yes], [yes, yes], [no, yes], [yes, no]]));
        let seen: Vec<_> = found
            .iter()
            .map(|demo| {
                let states: Vec<f32> = demo.segment.obs.iter().map(|obs| obs.state[0]).collect();
                (states, demo.segment.elapsed[0], demo.reward.clone())
            })
            .collect();
        assert_eq!(
            seen,
            [
                (vec![1.0, 2.0, 3.0], 5, vec![1.0, 2.0]),
                (vec![4.0, 5.0], 8, vec![4.0]),
                (vec![11.0, 12.0, 13.0], 2, vec![101.0, 102.0]),
                (vec![13.0, 14.0], 0, vec![103.0]),
            ]
        );
        assert_eq!(found[2].segment.outcome(1, 0).state, [99.0], "the last real observation");
        assert_eq!(found[0].segment.context[0].state, [0.0]);
        assert!(found[3].segment.context.is_empty(), "another episode is not remembered");
        assert_eq!(found[2].segment.actions, [[-1.0], [-2.0]]);
    }

    #[test]
    fn nothing_is_cut_where_nobody_took_over() {
        assert!(interventions(&experience([[false; 2]; 5])).is_empty());
    }
}
