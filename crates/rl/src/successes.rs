//! What the policy did well, cut out of a rollout: self-imitation (Oh et al., 2018).

use std::ops::Range;

use crate::Experience;
use crate::replay::NewRollout;
use crate::subsegment::labelled_subsegment;

/// Every subsegment of a row up to the end of an episode whose last reward is at least `min_reward`: whole episodes, or as much
/// of them as the rollout saw.
pub(crate) fn successes(experience: &Experience, min_reward: f32) -> Vec<NewRollout> {
    let rows = 0..experience.segment.batch();
    let subsegments = rows.flat_map(|row| {
        rewarded_ends(experience, row, min_reward).into_iter().map(move |steps| (row, steps))
    });
    subsegments.filter_map(|(row, steps)| labelled_subsegment(experience, row, steps)).collect()
}

fn rewarded_ends(experience: &Experience, row: usize, min_reward: f32) -> Vec<Range<usize>> {
    let Experience { segment, reward, .. } = experience;
    let (mut found, mut first) = (Vec::new(), 0);
    for t in 0..segment.steps() {
        let at = segment.at(t, row);
        if segment.end[at].is_end() {
            if reward.total[at] >= min_reward {
                found.push(first..t + 1);
            }
            first = t + 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use plaudit_core::{End, EnvReward, Obs, Reward, Segment, StepRow};

    use super::*;
    use crate::Decisions;

    #[test]
    fn only_episodes_whose_end_is_rewarded_are_kept() {
        let state = |t: f32| Obs::from_state(2, vec![t, 10.0 + t]).unwrap();
        let mut segment = Segment::starting_at(state(0.0));
        // Row 0 ends well at step 1 and badly at step 3; row 1 is rewarded on its way and does not end.
        for (t, end, reward) in
            [(0, false, 0.0), (1, true, 1.0), (2, false, 1.0), (3, true, 0.2), (4, false, 1.0)]
        {
            let ends = if end { vec![End::Terminated, End::No] } else { vec![End::No; 2] };
            let last = if end { vec![(0, Obs::from_state(1, vec![99.0]).unwrap())] } else { Vec::new() };
            let actions = vec![t as f32, 0.0];
            let step = StepRow { actions, env_reward: vec![reward, 1.0], end: ends, success: vec![false; 2] };
            segment.push(step, state(t as f32 + 1.0), last).unwrap();
        }
        let reward = EnvReward.label(&segment).unwrap();
        let kept = successes(&Experience { segment, decisions: Decisions::default(), reward }, 0.5);
        assert_eq!(kept.len(), 1);
        assert_eq!((kept[0].reward.clone(), kept[0].segment.steps()), (vec![0.0, 1.0], 2));
        assert_eq!(kept[0].segment.outcome(1, 0).state, [99.0]);
    }
}
