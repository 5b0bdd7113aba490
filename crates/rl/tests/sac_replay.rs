//! What a replay keeps, samples, relabels and saves.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

use std::collections::BTreeSet;
use std::sync::Arc;

use plaudit_core::{
    ActionSpace, End, EnvReward, EnvSpec, FrameShape, Frames, FramesNeeded, Obs, Reward, RewardColumn,
    RewardError, Seed, Segment, StepRow, Term,
};
use plaudit_rl::replay::{
    Amount, NewRollout, RelabelSettings, Replay, ReplayFill, ReplaySettings, Transitions,
};
use proptest::prelude::*;

/// Environments that count their steps; row `b` ends every `3 + b` steps. States are `[row, step of the run, step of
/// the episode]`, so that every transition says where it came from. Frames repeat the step of the run.
struct Counting {
    rows: usize,
    total: usize,
    frames: FramesNeeded,
}

impl Counting {
    fn obs(&self, total: usize) -> Obs {
        let state = |row: usize| [row as f32, total as f32, (total % (3 + row)) as f32];
        let obs = Obs::from_state(self.rows, (0..self.rows).flat_map(state).collect()).unwrap();
        if self.frames < FramesNeeded::Everything { obs } else { with_frame(obs, total) }
    }

    fn last(&self, row: usize, total: usize) -> Obs {
        let obs = Obs::from_state(1, vec![row as f32, total as f32, (3 + row) as f32]).unwrap();
        if self.frames < FramesNeeded::Ends { obs } else { with_frame(obs, total) }
    }

    /// The next `steps` steps with `context` observations before them, labelled by `reward`.
    fn rollout(&mut self, steps: usize, context: usize, reward: &dyn Reward) -> NewRollout {
        let before =
            (self.total.saturating_sub(context)..self.total).map(|at| Arc::new(self.obs(at))).collect();
        let elapsed = (0..self.rows).map(|row| self.total % (3 + row)).collect();
        let mut segment = Segment::continuing(self.obs(self.total), before, elapsed);
        for _ in 0..steps {
            self.total += 1;
            let ended = |row: &usize| self.total.is_multiple_of(3 + row);
            let row = StepRow {
                actions: (0..self.rows).map(|row| (self.total * 10 + row) as f32).collect(),
                env_reward: (0..self.rows).map(|row| (self.total * 100 + row) as f32).collect(),
                end: (0..self.rows).map(|row| if ended(&row) { End::Terminated } else { End::No }).collect(),
                success: (0..self.rows).map(|row| ended(&row)).collect(),
            };
            let last = (0..self.rows).filter(ended).map(|row| (row, self.last(row, self.total))).collect();
            segment.push(row, self.obs(self.total), last).unwrap();
        }
        let RewardColumn { total, version, .. } = reward.label(&segment).unwrap();
        NewRollout { segment, starts_chunk: Vec::new(), invalid: Vec::new(), reward: total, version }
    }
}

fn with_frame(obs: Obs, total: usize) -> Obs {
    let frames = Frames::new(FrameShape::rgb(2, 2), vec![total as u8; 12 * obs.batch()]).unwrap();
    obs.with_camera("main", frames).unwrap()
}

fn settings(keep: Amount, window: Amount) -> ReplaySettings {
    ReplaySettings { keep, window, chunk: 1, cameras: Vec::new(), relabel: RelabelSettings::default() }
}

fn filled(settings: ReplaySettings, rollouts: usize, steps: usize) -> Replay {
    let mut env = Counting { rows: 2, total: 0, frames: FramesNeeded::Nothing };
    let mut replay = Replay::new(settings);
    for _ in 0..rollouts {
        replay.add(env.rollout(steps, 0, &EnvReward), None).unwrap();
    }
    replay
}

/// The steps of the run that the transitions begin at.
fn begins(transitions: &Transitions) -> BTreeSet<usize> {
    transitions.obs.states.chunks_exact(3).map(|state| state[1] as usize).collect()
}

#[test]
fn every_transition_is_whole_wherever_rollouts_were_cut() {
    for (rollouts, steps) in [(12, 1), (6, 2), (4, 3), (1, 12)] {
        let all = filled(settings(Amount::Rollouts(100), Amount::Rollouts(100)), rollouts, steps).all();
        assert_eq!(all.len(), 24);
        for at in 0..all.len() {
            let (seen, outcome) = (&all.obs.states[at * 3..][..3], &all.next_obs.states[at * 3..][..3]);
            let (row, step) = (seen[0] as usize, seen[1] as usize + 1);
            let ended = step.is_multiple_of(3 + row);
            let reached = if ended { 3 + row } else { step % (3 + row) };
            assert_eq!(
                outcome,
                [row as f32, step as f32, reached as f32],
                "the last real observation, not the reset"
            );
            assert_eq!(all.actions[at], (step * 10 + row) as f32);
            assert_eq!(all.rewards[at], (step * 100 + row) as f32);
            assert_eq!(all.ends[at].is_end(), ended);
        }
    }
}

/// Row 0 ends after 3, 6, 9 … steps. Its episode of steps 3 to 5 turns out to be invalid, however the run was cut.
#[test]
fn invalid_episodes_are_never_sampled_nor_what_was_kept_of_them_before() {
    for steps in [1, 2, 3, 4, 12] {
        let mut env = Counting { rows: 2, total: 0, frames: FramesNeeded::Nothing };
        let mut replay = Replay::new(settings(Amount::Rollouts(100), Amount::Rollouts(100)));
        for first in (0..12).step_by(steps) {
            let mut new = env.rollout(steps, 0, &EnvReward);
            // A rollout knows of its own steps, and only once the episode has ended.
            let ends_here = (first..first + steps).contains(&5);
            let is_invalid =
                |at: usize| ends_here && at.is_multiple_of(2) && (3..6).contains(&(first + at / 2));
            new.invalid = (0..2 * steps).map(is_invalid).collect();
            replay.add(new, None).unwrap();
        }
        let all = replay.all();
        let rows = all.obs.states.chunks_exact(3).filter(|state| state[0] == 0.0);
        let kept: Vec<usize> = rows.map(|state| state[1] as usize).collect();
        assert_eq!(kept, [0, 1, 2, 6, 7, 8, 9, 10, 11], "rollouts of {steps}");
        assert_eq!((replay.transitions(), replay.window()), (21, 21));
        let outcomes = all.next_obs.states.chunks_exact(3).zip(all.obs.states.chunks_exact(3));
        assert!(outcomes.into_iter().all(|(after, before)| after[1] == before[1] + 1.0), "all are whole");
    }
    let mut env = Counting { rows: 1, total: 0, frames: FramesNeeded::Nothing };
    let mut replay = Replay::new(settings(Amount::Rollouts(100), Amount::Rollouts(100)));
    let new = env.rollout(3, 0, &EnvReward);
    replay.add(NewRollout { invalid: vec![true; 3], ..new }, None).unwrap();
    assert_eq!((replay.rollouts(), replay.transitions()), (0, 0));
}

#[test]
fn sizes_count_rollouts_or_transitions() {
    let by_rollouts = filled(settings(Amount::Rollouts(5), Amount::Rollouts(3)), 8, 2);
    assert_eq!((by_rollouts.rollouts(), by_rollouts.transitions(), by_rollouts.window()), (5, 20, 12));
    let by_transitions = filled(settings(Amount::Transitions(7), Amount::Transitions(5)), 8, 2);
    // Rollouts of 4 transitions are dropped as a whole, so long as 7 remain.
    assert_eq!((by_transitions.rollouts(), by_transitions.transitions(), by_transitions.window()), (2, 8, 5));
}

#[test]
fn samples_are_uniform_over_the_window_and_capped_at_what_is_there() {
    let replay = filled(settings(Amount::Rollouts(8), Amount::Rollouts(3)), 8, 2);
    let (mut rng, mut sampled) = (Seed::new(4).rng(), Transitions::default());
    replay.sample(100, &mut rng, &mut sampled);
    assert_eq!(sampled.len(), 12, "asks are capped at the number available");
    let mut counts = [0usize; 16 * 2];
    for _ in 0..1000 {
        sampled.clear();
        replay.sample(12, &mut rng, &mut sampled);
        for state in sampled.obs.states.chunks_exact(3) {
            counts[state[1] as usize * 2 + state[0] as usize] += 1;
        }
    }
    assert_eq!(counts[..20].iter().sum::<usize>(), 0, "nothing from before the window");
    // 12,000 samples over 12 places: 1,000 each, with a standard deviation of 30; five of them are allowed.
    assert!(counts[20..].iter().all(|count| count.abs_diff(1000) < 151), "{counts:?}");
}

#[test]
fn chunks_are_one_transition_and_stop_at_an_end() {
    let mut env = Counting { rows: 2, total: 0, frames: FramesNeeded::Nothing };
    let mut rollout = env.rollout(6, 0, &EnvReward);
    // Row 0 ends at steps 3 and 6, row 1 at step 4. Both decide two actions at a time, and anew after an end.
    rollout.starts_chunk =
        [[1, 1], [0, 0], [1, 1], [1, 0], [0, 1], [1, 0]].concat().iter().map(|starts| *starts == 1).collect();
    let mut replay =
        Replay::new(ReplaySettings { chunk: 2, ..settings(Amount::Rollouts(9), Amount::Rollouts(9)) });
    replay.add(rollout, None).unwrap();
    let all = replay.all();
    let found: Vec<_> = (0..all.len())
        .map(|at| {
            let seen = &all.obs.states[at * 3..][..3];
            let ended = all.ends[at].is_end();
            ((seen[0], seen[1]), (all.actions[2 * at], all.actions[2 * at + 1]), all.rewards[at], ended)
        })
        .collect();
    assert_eq!(
        found,
        [
            ((0.0, 0.0), (10.0, 20.0), 300.0, false),
            ((1.0, 0.0), (11.0, 21.0), 302.0, false),
            ((0.0, 2.0), (30.0, 0.0), 300.0, true), // the episode ended after the first of two
            ((1.0, 2.0), (31.0, 41.0), 702.0, true),
            ((0.0, 3.0), (40.0, 50.0), 900.0, false),
            ((1.0, 4.0), (51.0, 61.0), 1102.0, false),
            ((0.0, 5.0), (60.0, 0.0), 600.0, true),
        ]
    );
}

/// The sum of the newest `window` step numbers an episode has seen, times its version; with frames, it also
/// insists on having those it asked for.
struct Windowed {
    window: usize,
    version: u64,
    frames_needed: FramesNeeded,
}

impl Reward for Windowed {
    fn label(&self, segment: &Segment) -> Result<RewardColumn, RewardError> {
        let batch = segment.batch();
        let mut values = vec![0.0; segment.steps() * batch];
        for t in 0..segment.steps() {
            for b in 0..batch {
                let needs_frame = self.frames_needed == FramesNeeded::Everything
                    || (self.frames_needed == FramesNeeded::Ends && segment.end[t * batch + b].is_end());
                if needs_frame && segment.outcome(t, b).image("main").is_none() {
                    return Err(RewardError::Camera { camera: "main".into() });
                }
                values[t * batch + b] = self.reward_at(segment, t, b);
            }
        }
        RewardColumn::of_terms(vec![Term { name: "window".into(), weight: 1.0, values }], self.version)
    }

    fn context(&self) -> usize {
        self.window
    }

    fn frames_needed(&self) -> FramesNeeded {
        self.frames_needed
    }

    fn version(&self) -> u64 {
        self.version
    }
}

impl Windowed {
    fn reward_at(&self, segment: &Segment, t: usize, b: usize) -> f32 {
        let mut steps = vec![segment.outcome(t, b).state[1]];
        let mut at = t;
        while at > 0 && !segment.end[(at - 1) * segment.batch() + b].is_end() {
            steps.push(segment.obs[at].row(b).state[1]);
            at -= 1;
        }
        if at == 0 {
            steps.push(segment.obs[0].row(b).state[1]);
            let newest = segment.context.iter().rev().take(segment.context_rows(b));
            steps.extend(newest.map(|obs| obs.row(b).state[1]));
        } else {
            steps.push(segment.obs[at].row(b).state[1]);
        }
        self.version as f32 * steps.iter().take(self.window).sum::<f32>()
    }
}

fn relabelled(
    cuts: &[usize],
    keep: usize,
    frames_needed: FramesNeeded,
    frame_bytes: u64,
) -> (Replay, Replay) {
    let [old, new] = [1, 2].map(|version| Windowed { window: 4, version, frames_needed });
    let with = |first: &Windowed| {
        let mut env = Counting { rows: 2, total: 0, frames: frames_needed };
        let relabel = RelabelSettings { frames_needed, context: 4, frame_bytes };
        let mut replay = Replay::new(ReplaySettings {
            relabel,
            ..settings(Amount::Rollouts(keep), Amount::Rollouts(keep))
        });
        for &steps in cuts {
            replay.add(env.rollout(steps, 4, first), None).unwrap();
        }
        replay
    };
    let mut changed = with(&old);
    changed.relabel(&new).unwrap();
    (changed, with(&new))
}

proptest! {
    /// Relabelling gives what the new reward would have given from the start, wherever rollouts were cut and
    /// whatever was dropped before.
    #[test]
    fn relabelling_is_as_if_the_new_reward_had_labelled(cuts in proptest::collection::vec(1usize..6, 1..8), keep in 1usize..6) {
        let (changed, labelled_anew) = relabelled(&cuts, keep, FramesNeeded::Nothing, 0);
        prop_assert_eq!(changed.all().rewards, labelled_anew.all().rewards);
        prop_assert!(changed.versions().all(|version| version == 2));
    }
}

#[test]
fn frames_for_the_reward_alone_are_kept_within_their_budget() {
    for frames_needed in [FramesNeeded::Ends, FramesNeeded::Everything] {
        let (changed, labelled_anew) = relabelled(&[5, 5, 5], 3, frames_needed, 1 << 20);
        assert_eq!(changed.all().rewards, labelled_anew.all().rewards, "{frames_needed:?}");
        assert!(changed.all().obs.images.is_empty(), "the policy needs no camera");
        // Room for the newest rollout alone: the older two keep the rewards they had, and say so.
        let bytes = if frames_needed == FramesNeeded::Ends { 12 * 4 } else { 12 * 16 };
        let (changed, _) = relabelled(&[5, 5, 5], 3, frames_needed, bytes);
        let versions: Vec<u64> = changed.versions().collect();
        assert_eq!(versions, [vec![1; 20], vec![2; 10]].concat(), "{frames_needed:?}");
        assert_eq!(changed.labelled_by_others(2), 20);
    }
}

#[test]
fn what_is_saved_comes_back_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replay.pt");
    for frames_needed in [FramesNeeded::Nothing, FramesNeeded::Ends, FramesNeeded::Everything] {
        let (replay, _) = relabelled(&[2, 5, 1, 4, 3], 4, frames_needed, 1 << 20);
        replay.save(&path).unwrap();
        let relabel = RelabelSettings { frames_needed, context: 4, frame_bytes: 1 << 20 };
        let empty = ReplaySettings { relabel, ..settings(Amount::Rollouts(4), Amount::Rollouts(4)) };
        let mut restored = Replay::new(empty);
        restored.restore(&path).unwrap();
        assert_eq!(format!("{restored:?}"), format!("{replay:?}"));
        let (mut here, mut there) = (Transitions::default(), Transitions::default());
        replay.sample(10, &mut Seed::new(1).rng(), &mut here);
        restored.sample(10, &mut Seed::new(1).rng(), &mut there);
        assert_eq!(begins(&here), begins(&there));
        let newer = Windowed { window: 4, version: 3, frames_needed };
        assert!(restored.relabel(&newer).unwrap() > 0, "it can be relabelled");
    }
    std::fs::write(&path, b"nothing of the kind").unwrap();
    let mut kept = filled(settings(Amount::Rollouts(8), Amount::Rollouts(3)), 2, 2);
    assert!(kept.restore(&path).is_err());
    assert_eq!(kept.transitions(), 8, "a refused file changes nothing");
}

#[test]
fn a_replay_larger_than_memory_is_refused_with_its_bytes() {
    let spec = EnvSpec {
        id: "PickCube-v1".into(),
        num_envs: 100,
        state_width: 29,
        state_parts: vec![],
        actions: ActionSpace::Continuous { low: vec![-1.0; 4], high: vec![1.0; 4] },
        cameras: vec![
            ("main".into(), FrameShape::rgb(128, 128)),
            ("other".into(), FrameShape::rgb(512, 512)),
        ],
        max_episode_steps: Some(50),
        control_hz: 20.0,
    };
    let filling = ReplayFill { steps_per_rollout: 50, rollouts: None, feature_width: 0 };
    let states = settings(Amount::Rollouts(10_000), Amount::Rollouts(10_000));
    let images = ReplaySettings { cameras: vec!["main".into()], ..states.clone() };
    let image = 128 * 128 * 3 + 29 * 4;
    // One image, a fiftieth of one for the ends, four action values, two rewards, an end and a success.
    assert_eq!(images.full_bytes(&spec, filling), 50_000_000 * (image + image / 50 + 24 + 2));
    let error = images.check_memory(&spec, filling).unwrap_err();
    assert!(error.to_string().contains("2513950000000 bytes"), "{error}");
    assert_eq!((error.transitions, error.bytes), (50_000_000, 2_513_950_000_000));
    let short = ReplayFill { rollouts: Some(1), ..filling };
    assert_eq!(images.check_memory(&spec, short), Ok(()), "a short run never fills it");
}
