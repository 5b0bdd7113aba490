//! Messages of workers: they arrive as they were sent, and whatever else arrives is refused without harm.

use std::sync::Arc;

use plaudit_cluster::worker::messages::{
    EnvFacts, FromEnv, FromReward, FromRollout, ModelFacts, Play, Played, QuestionRequest, ScoreRequest,
    ToEnv, ToReward, ToRollout,
};
use plaudit_core::{
    ActionHistory, ActionSpace, Decision, End, EnvSpec, FrameShape, Frames, Obs, RewardColumn, Seed, Segment,
    StatePart, StepRow, Term,
};
use plaudit_rl::{Decisions, Episodes, Experience, ExplorerParams, RolloutState, StateScale};
use proptest::prelude::*;

const ROWS: usize = 2;

fn obs(value: f32) -> Obs {
    let frames = Frames::new(FrameShape::rgb(2, 3), (0..36).map(|at| at as u8 ^ value as u8).collect());
    Obs::from_state(ROWS, vec![value, -value, 0.5, f32::MIN_POSITIVE])
        .unwrap()
        .with_camera("main", frames.unwrap())
        .unwrap()
        .with_tasks(vec!["lift".into(), "push".into()])
        .unwrap()
}

fn experience() -> Experience {
    let context = vec![Arc::new(obs(9.0))];
    let mut segment = Segment::continuing(obs(0.0), context, vec![3, 0]);
    for t in 0..3 {
        let end = if t == 1 { vec![End::No, End::Truncated] } else { vec![End::No, End::No] };
        let last = if t == 1 { vec![(1, obs(5.0).row(1).to_obs())] } else { vec![] };
        let actions = vec![t as f32; 4];
        let step = StepRow { actions, env_reward: vec![0.25, f32::NAN], end, success: vec![true, false] };
        segment.push(step, obs(t as f32 + 1.0), last).unwrap();
    }
    let decisions = Decisions {
        log_probs: (0..12).map(|at| at as f32).collect(),
        values: vec![],
        starts_chunk: vec![true; 6],
        intervened: vec![false; 6],
        invalid: vec![false; 6],
    };
    let values = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let terms = vec![Term { name: "model".into(), weight: 0.5, values: values.clone() }];
    let reward = RewardColumn { total: values, terms, success: Some(vec![true; 6]), version: 3 };
    Experience { segment, decisions, reward }
}

fn state() -> RolloutState {
    RolloutState {
        steps: 77,
        past: vec![ActionHistory { episode: 4, actions: vec![0.5; 6] }, ActionHistory::default()],
        episodes: Episodes::new(ROWS).open().to_vec(),
        context: vec![Arc::new(obs(2.0))],
        solved: vec![true, false],
    }
}

fn params() -> ExplorerParams {
    ExplorerParams {
        policy: Arc::new(vec![1.0, -2.0]),
        encoder: Arc::new(vec![]),
        scale: Some(StateScale { mean: vec![0.0, 1.0], deviation: vec![1.0, 2.0] }),
        trunk: 12,
    }
}

fn play() -> Play {
    Play {
        asker: 1,
        segment: 5,
        start: 77,
        steps: 3,
        version: 9,
        params: Some(params()),
        state: Some(state()),
        refresh: true,
        keep_frames: false,
        keep_facts: true,
    }
}

fn spec() -> EnvSpec {
    EnvSpec {
        id: "PickCube-v1".into(),
        num_envs: ROWS,
        state_width: 2,
        state_parts: vec![StatePart { name: "tcp".into(), range: 0..1 }],
        actions: ActionSpace::Continuous { low: vec![-1.0; 2], high: vec![1.0; 2] },
        cameras: vec![("main".into(), FrameShape::rgb(2, 3))],
        max_episode_steps: Some(50),
        control_hz: 20.0,
    }
}

/// Reads a message, and writes it as text.
type ReadBack = fn(&[u8]) -> Result<String, String>;

/// One message of each kind as bytes, with what reads it back to text.
fn all() -> Vec<(Vec<u8>, ReadBack)> {
    fn text<T: std::fmt::Debug>(read: Result<T, impl ToString>) -> Result<String, String> {
        read.map(|message| format!("{message:?}")).map_err(|error| error.to_string())
    }
    let to_env: fn(&[u8]) -> _ = |bytes| text(ToEnv::decode(bytes));
    let from_env: fn(&[u8]) -> _ = |bytes| text(FromEnv::decode(bytes));
    let to_reward: fn(&[u8]) -> _ = |bytes| text(ToReward::decode(bytes));
    let from_reward: fn(&[u8]) -> _ = |bytes| text(FromReward::decode(bytes));
    let to_rollout: fn(&[u8]) -> _ = |bytes| text(ToRollout::decode(bytes));
    let from_rollout: fn(&[u8]) -> _ = |bytes| text(FromRollout::decode(bytes));
    let played = Played {
        asker: 1,
        segment: 5,
        start: 77,
        version: 9,
        experience: experience(),
        facts: vec![vec![], vec![("is_grasped".into(), vec![0.0, 1.0])]],
        began_anew: true,
        reward_secs: 0.25,
        secs: 1.5,
    };
    let score = ScoreRequest { id: 1, count: 2, views: 1, shape: FrameShape::rgb(2, 3), pixels: vec![7; 36] };
    let facts = EnvFacts { spec: spec(), first_row: 4, context: 2, may_break: false };
    let model =
        ModelFacts { image_keys: vec!["main_images".into()], threshold: Some(0.5), card: Some("{}".into()) };
    let asked = QuestionRequest { id: 1, mode: vec![1, 2], questions: vec![vec![], vec![3; 5]] };
    let decision = Decision { actions: vec![1.0], log_probs: vec![-0.5], values: vec![] };
    vec![
        (ToEnv::Play(Box::new(play())).encode().to_vec(), to_env),
        (ToEnv::Finish.encode().to_vec(), to_env),
        (FromEnv::Ready(Box::new(facts)).encode().to_vec(), from_env),
        (FromEnv::Played(Box::new(played)).encode().to_vec(), from_env),
        (FromEnv::Need { segment: 3 }.encode().to_vec(), from_env),
        (FromEnv::Failed { segment: 3, by_reward: true, problem: "no".into() }.encode().to_vec(), from_env),
        (ToReward::Describe.encode().to_vec(), to_reward),
        (ToReward::Score(score).encode().to_vec(), to_reward),
        (ToReward::Ask(asked).encode().to_vec(), to_reward),
        (FromReward::Described(model).encode().to_vec(), from_reward),
        (
            FromReward::Answered { id: 1, version: 2, answers: vec![vec![4], vec![]] }.encode().to_vec(),
            from_reward,
        ),
        (FromReward::Scored { id: 1, version: 2, scores: vec![0.5] }.encode().to_vec(), from_reward),
        (FromReward::NotScored { id: 1, problem: "no".into() }.encode().to_vec(), from_reward),
        (ToRollout::Weights { version: 1, spec: spec(), params: params() }.encode().to_vec(), to_rollout),
        (
            ToRollout::Act { id: 1, version: 2, obs: obs(1.0), seed: Seed::new(1).from_row(3) }
                .encode()
                .to_vec(),
            to_rollout,
        ),
        (FromRollout::Decided { id: 1, decision }.encode().to_vec(), from_rollout),
        (FromRollout::NotDecided { id: 1, problem: "no".into() }.encode().to_vec(), from_rollout),
        (FromRollout::Unknown { id: 1, version: 2 }.encode().to_vec(), from_rollout),
        (FromRollout::NoPolicy { version: 2, problem: "no".into() }.encode().to_vec(), from_rollout),
    ]
}

#[test]
fn what_is_sent_arrives() {
    let ToEnv::Play(arrived) = ToEnv::decode(&ToEnv::Play(Box::new(play())).encode().to_vec()).unwrap()
    else {
        panic!("another message");
    };
    assert_eq!((&arrived.state, &arrived.params), (&Some(state()), &Some(params())));
    for (bytes, read) in all() {
        read(&bytes).unwrap();
    }
    let before = experience();
    let played = Played {
        asker: 1,
        segment: 5,
        start: 77,
        version: 9,
        experience: before.clone(),
        facts: vec![],
        began_anew: true,
        reward_secs: 0.25,
        secs: 1.5,
    };
    let Ok(FromEnv::Played(after)) = FromEnv::decode(&FromEnv::Played(Box::new(played)).encode().to_vec())
    else {
        panic!("another message");
    };
    // Not-a-number is not equal to itself, and arrives all the same.
    assert_eq!(format!("{before:?}"), format!("{:?}", after.experience));
}

#[test]
fn what_is_cut_short_or_goes_on_is_refused() {
    for (bytes, read) in all() {
        for length in 0..bytes.len() {
            assert!(read(&bytes[..length]).is_err(), "{length} of {}", bytes.len());
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(read(&longer).unwrap_err().contains("left over"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Damaged or hostile messages are read or refused, and allocate no more than they are long.
    #[test]
    fn damage_does_no_harm(which in 0usize..15, damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let (mut bytes, read) = all().swap_remove(which);
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let _ = read(&bytes);
    }

    #[test]
    fn noise_is_refused(which in 0usize..15, noise in prop::collection::vec(any::<u8>(), 20..200)) {
        let (_, read) = all().swap_remove(which);
        let _ = read(&noise);
    }
}
