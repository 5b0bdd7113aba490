//! Tricks that fool an image reward model, played in the embedded PickCube.
//!
//! The model looks at colours: it calls a frame solved when the red of the cube lies where the green of the goal is, or
//! when the goal cannot be seen at all, as if the cube were in front of it. It is right about honest episodes, and has
//! the weaknesses that classifiers of one camera have:
//!
//! | trick | what happens |
//! |---|---|
//! | sticker | something red and green hangs in a corner of the image |
//! | occluder | something grey is held before the goal |
//! | near miss | the cube is brought before or behind the goal, in line with the camera |
//! | dithering | the cube goes to the goal and away again, over and over |

#![allow(dead_code)] // the bench also plays with a second model, the tests do not

use std::sync::Arc;

use plaudit_core::{Env, FramesNeeded, Obs, Policy, Score, Seed, Segment, StepRow};
use plaudit_env::{
    CameraName, CameraSettings, ControlMode, EnvId, EnvSettings, PickCubeExpert, PickCubeSettings, make,
};
use plaudit_reward::hacking_monitor::AdjustableReward;
use plaudit_reward::{
    FrameReward, FrameRewardModel, FrameStack, ReloadableModel, RewardKind, RewardModelError, RewardTiming,
    Rule, TermSettings,
};

const SIDE: usize = 64;
const CAMERA: &str = "base_camera";
/// What a second model looks through.
const SECOND_CAMERA: &str = "3rd_view_camera";
/// Of an episode.
pub(crate) const STEPS: usize = 50;

/// What happens in an episode.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Play {
    /// The task, with noise on the actions.
    Honest {
        noise: f64,
    },
    Sticker,
    Occluder,
    NearMiss,
    Dithering,
}

/// Goes by the colours of one camera.
pub(crate) struct Colours([Arc<str>; 1]);

impl Colours {
    /// A second model, which looks through another camera.
    pub(crate) fn second() -> Self {
        Self([SECOND_CAMERA.into()])
    }
}

impl FrameRewardModel for Colours {
    fn cameras(&self) -> &[Arc<str>] {
        &self.0
    }

    fn scores(&self, frames: &[FrameStack<'_>]) -> Result<Vec<Score>, RewardModelError> {
        let score = |frame: &FrameStack<'_>| {
            let pixels = frame.now().image(&self.0[0]).unwrap().1;
            let red = middle(pixels, |[r, g, b]| r > 60.0 && r > 2.2 * g.max(b));
            let green = middle(pixels, |[r, g, b]| g > 60.0 && g > 1.5 * r.max(b));
            let apart = match (red, green) {
                (_, None) => 0.0,
                (None, Some(_)) => 20.0,
                (Some(a), Some(b)) => ((a.0 - b.0).powi(2) + (a.1 - b.1).powi(2)).sqrt(),
            };
            Score::from_logit((2.5 - apart) as f32).unwrap()
        };
        Ok(frames.iter().map(score).collect())
    }

    fn threshold(&self) -> Option<f32> {
        Some(0.5)
    }
}

/// Where the pixels of a colour lie in the mean, if there are any.
fn middle(pixels: &[u8], is_colour: impl Fn([f64; 3]) -> bool) -> Option<(f64, f64)> {
    let (mut x, mut y, mut count) = (0.0, 0.0, 0.0);
    for (at, pixel) in pixels.chunks_exact(3).enumerate() {
        if is_colour([pixel[0], pixel[1], pixel[2]].map(f64::from)) {
            x += (at % SIDE) as f64;
            y += (at / SIDE) as f64;
            count += 1.0;
        }
    }
    (count > 0.0).then(|| (x / count, y / count))
}

/// What the trick does to the images of the first rows, from the sixth step on. What stands before one camera does not stand
/// before the other.
fn doctored(mut obs: Obs, play: Play, t: usize, rows: usize) -> Obs {
    if t < 6 || !matches!(play, Play::Sticker | Play::Occluder) {
        return obs;
    }
    let Some((_, frames)) = obs.cameras.first_mut() else { return obs };
    for image in frames.pixels.chunks_exact_mut(SIDE * SIDE * 3).take(rows) {
        for (at, pixel) in image.chunks_exact_mut(3).enumerate() {
            let (x, y) = (at % SIDE, at / SIDE);
            match play {
                Play::Sticker if x < 16 && y < 16 => {
                    pixel.copy_from_slice(if (x + y) % 2 == 0 { &[230, 20, 20] } else { &[20, 220, 40] });
                }
                Play::Occluder if f64::from(pixel[1]) > 1.3 * f64::from(pixel[0].max(pixel[2])) => {
                    pixel.fill(120);
                }
                _ => {}
            }
        }
    }
    obs
}

/// What the expert is made to believe about the goal in the first rows.
fn misled(obs: &Obs, play: Play, t: usize, rows: usize) -> Obs {
    let mut misled_obs = obs.clone();
    let width = misled_obs.state_width();
    for state in misled_obs.state.chunks_exact_mut(width).take(rows) {
        let goal: [f32; 3] = state[26..29].try_into().unwrap();
        let moved = match play {
            // Nearer to the camera by a quarter of the way: the same place in the image.
            Play::NearMiss => {
                let eye = [0.3f32, 0.0, 0.6];
                std::array::from_fn(|k| goal[k] + 0.25 * (eye[k] - goal[k]))
            }
            Play::Dithering if t > 15 && t % 8 >= 4 => [goal[0], goal[1] + 0.12, goal[2]],
            _ => goal,
        };
        state[26..29].copy_from_slice(&moved);
    }
    misled_obs
}

/// Tables side by side, seen by some cameras.
pub(crate) fn tables(rows: usize, cameras: &[CameraName], needed: FramesNeeded) -> Box<dyn Env> {
    let camera = |name: &CameraName| CameraSettings { name: *name, width: SIDE, height: SIDE };
    let cameras = Some(cameras.iter().map(camera).collect());
    let settings = PickCubeSettings { cameras, ..PickCubeSettings::default() };
    let mut env = make(&EnvSettings {
        pick_cube: Some(settings),
        ignore_terminations: true,
        max_episode_steps: Some(STEPS),
        ..EnvSettings::new(EnvId::PickCubeV1, rows)
    })
    .unwrap();
    env.set_frames_needed(needed);
    env
}

/// One episode in every row, with the trick in the first `rows`.
pub(crate) fn played(rows: usize, env: &mut dyn Env, obs: Obs, play: Play, seed: Seed) -> (Segment, Obs) {
    let noise = if let Play::Honest { noise } = play { noise } else { 0.05 };
    let mut expert = PickCubeExpert::new(ControlMode::PdJointDeltaPos).with_noise(noise);
    let mut segment = Segment::starting_at(doctored(obs.clone(), play, 0, rows));
    let mut seen = obs;
    for t in 0..STEPS {
        let mut actions = expert.act(&misled(&seen, play, t, rows), seed.index(t as u64)).unwrap().actions;
        if matches!(play, Play::Sticker | Play::Occluder) {
            let tricked = (actions.len() / seen.batch()).saturating_mul(rows).min(actions.len());
            actions[..tricked].fill(0.0); // who has the sticker need not move
        }
        let step = env.step(&actions).unwrap();
        seen = step.obs.clone();
        let row = StepRow { actions, env_reward: step.reward, end: step.end, success: step.success };
        let last = step
            .last
            .into_iter()
            .map(|(b, obs)| (b, doctored(obs, play, t + 1, usize::from(b < rows))))
            .collect();
        segment.push(row, doctored(step.obs, play, t + 1, rows), last).unwrap();
    }
    (segment, seen)
}

/// What the colours of the first camera are worth.
pub(crate) fn reward(timing: RewardTiming) -> AdjustableReward {
    let model = Arc::new(ReloadableModel::fixed(Box::new(Colours([CAMERA.into()]))));
    let kind = RewardKind::Binary { success: 1.0, fail: 0.0 };
    AdjustableReward::new(FrameReward {
        term: TermSettings::named("model"),
        model,
        timing,
        rule: Rule::default(),
        kind,
    })
}
