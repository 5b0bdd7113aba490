//! Episodes of environments in other processes, from rollouts that the learner has counted: each step once, whichever workers
//! were killed on the way.

use std::collections::BTreeMap;

use plaudit_cluster::worker::CountedRollout;
use plaudit_core::{Facts, Segment, Step};
use plaudit_data::episode::{Collector, Episode, Keep};

/// Gathers the episodes of every worker.
#[derive(Debug, Default)]
pub(crate) struct RemoteEpisodes {
    /// By rank; workers in step are one.
    sources: BTreeMap<usize, Source>,
}

#[derive(Debug)]
struct Source {
    collector: Collector,
    /// Rows whose episode began before this process did: what there is of it is not recorded.
    is_cut_off: Vec<bool>,
}

impl RemoteEpisodes {
    /// The episodes that end in a rollout.
    pub(crate) fn take(&mut self, rollout: &CountedRollout<'_>, keep: Keep) -> Vec<Episode> {
        let segment = &rollout.experience.segment;
        let first = &segment.obs[0]; // a segment shows what was seen before its first step
        let source = self.sources.entry(rollout.rank).or_insert_with(|| Source {
            collector: Collector::new(first, keep),
            is_cut_off: segment.elapsed.iter().map(|steps| *steps > 0).collect(),
        });
        if !rollout.began_anew.is_empty() {
            source.collector.restart_rows(rollout.began_anew, first);
            rollout.began_anew.iter().for_each(|row| source.is_cut_off[*row] = false);
        }
        let mut finished = Vec::new();
        for t in 0..segment.steps() {
            let step = step_of(segment, t, rollout.facts.get(t));
            for mut episode in source.collector.step(&segment.actions[t], &step) {
                let row = episode.row;
                if !source.is_cut_off[row] {
                    episode.row = rollout.first_row + row;
                    finished.push(episode);
                }
            }
            for (row, end) in step.end.iter().enumerate() {
                source.is_cut_off[row] &= !end.is_end();
            }
        }
        finished
    }
}

/// A step of a segment, as the environments gave it.
fn step_of(segment: &Segment, t: usize, facts: Option<&Facts>) -> Step {
    let batch = segment.batch();
    let cells = t * batch..(t + 1) * batch;
    let last = segment.last.iter().filter(|(at, _, _)| *at == t);
    let mut facts = facts.cloned().unwrap_or_default();
    facts.iter_mut().for_each(|(_, values)| values.resize(batch, 0.0));
    Step {
        obs: segment.obs[t + 1].clone(),
        reward: segment.env_reward[cells.clone()].to_vec(),
        end: segment.end[cells.clone()].to_vec(),
        success: segment.success[cells].to_vec(),
        last: last.map(|(_, row, obs)| (*row, obs.clone())).collect(),
        facts,
        interventions: Vec::new(), // they are among the actions already
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plaudit_core::{End, Obs, RewardColumn, StepRow};
    use plaudit_rl::{Decisions, Experience};

    /// Rows count up; row 0 ends after the given steps, and both rows have a fact.
    fn rollout(from: f32, ends: &[bool], elapsed: Vec<usize>) -> (Experience, Vec<Facts>) {
        let obs = |value: f32| Obs::from_state(2, vec![value, -value]).unwrap();
        let mut segment = Segment::continuing(obs(from), Vec::new(), elapsed);
        let mut facts = Vec::new();
        for (t, ends) in ends.iter().enumerate() {
            let value = from + t as f32 + 1.0;
            let end = vec![if *ends { End::Terminated } else { End::No }, End::No];
            let last = if *ends { vec![(0, obs(value).row(0).to_obs())] } else { vec![] };
            let step = StepRow {
                actions: vec![value; 2],
                env_reward: vec![value; 2],
                end,
                success: vec![*ends, false],
            };
            segment.push(step, obs(value), last).unwrap();
            facts.push(vec![("height".into(), vec![10.0 * value, 0.0])]);
        }
        let cells = 2 * ends.len();
        let reward = RewardColumn { total: vec![0.0; cells], terms: vec![], success: None, version: 0 };
        (Experience { segment, decisions: Decisions::default(), reward }, facts)
    }

    fn take(
        episodes: &mut RemoteEpisodes,
        played: &(Experience, Vec<Facts>),
        began_anew: &[usize],
    ) -> Vec<Episode> {
        let (experience, facts) = played;
        let rollout = CountedRollout { rank: 1, first_row: 4, experience, facts, began_anew };
        episodes.take(&rollout, Keep::All)
    }

    #[test]
    fn an_episode_reaches_over_rollouts_and_keeps_its_facts() {
        let mut episodes = RemoteEpisodes::default();
        assert!(take(&mut episodes, &rollout(0.0, &[false, false], vec![0, 0]), &[]).is_empty());
        let finished = take(&mut episodes, &rollout(2.0, &[true, false], vec![2, 2]), &[]);
        let [episode] = &finished[..] else { panic!("{finished:?}") };
        assert_eq!((episode.row, episode.number, episode.success), (4, 0, true));
        assert_eq!(episode.states.iter().map(|state| state[0]).collect::<Vec<_>>(), [0.0, 1.0, 2.0, 3.0]);
        let heights: Vec<f32> = episode.timesteps[1..].iter().map(|step| step.facts[0].1).collect();
        assert_eq!(heights, [10.0, 20.0, 30.0]);
    }

    #[test]
    fn what_began_before_is_left_out_and_what_begins_anew_is_not_joined() {
        let mut episodes = RemoteEpisodes::default();
        let finished = take(&mut episodes, &rollout(5.0, &[true, true], vec![5, 0]), &[]);
        assert_eq!(finished.len(), 1, "only the second is whole");
        assert_eq!(finished[0].states.len(), 2);
        assert!(take(&mut episodes, &rollout(0.0, &[false], vec![0, 2]), &[]).is_empty());
        let finished = take(&mut episodes, &rollout(7.0, &[true], vec![0, 0]), &[0, 1]);
        assert_eq!(finished[0].states.iter().map(|state| state[0]).collect::<Vec<_>>(), [7.0, 8.0]);
    }
}
