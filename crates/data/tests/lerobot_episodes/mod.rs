//! Episodes for the tests of LeRobot datasets, each different and each the same every time.

use plaudit_core::{End, FrameShape};
use plaudit_data::episode::{CameraTrack, Episode, Timestep};

/// What the episodes of a test are like.
pub(crate) struct Kind {
    pub(crate) state_width: usize,
    pub(crate) action_width: usize,
    pub(crate) cameras: Vec<(&'static str, FrameShape)>,
}

impl Default for Kind {
    fn default() -> Self {
        Self { state_width: 5, action_width: 3, cameras: vec![("main", FrameShape::rgb(6, 8))] }
    }
}

/// Numbers that look random.
fn noise(seed: u64) -> impl FnMut() -> u32 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u32
    }
}

/// Episode `number`, of `frames` actions. Every third fails; tasks repeat.
pub(crate) fn episode(kind: &Kind, number: u64, frames: usize) -> Episode {
    let mut noise = noise(number + 1);
    let mut floats = |count: usize| -> Vec<f32> {
        (0..count).map(|_| noise() as f32 / u32::MAX as f32 * 4.0 - 2.0).collect()
    };
    let states = (0..=frames).map(|_| floats(kind.state_width)).collect();
    let actions = (0..frames).map(|_| floats(kind.action_width)).collect();
    let success = number % 3 != 2;
    let track = |(name, shape): &(&str, FrameShape)| CameraTrack {
        name: (*name).into(),
        shape: *shape,
        pixels: (0..(frames + 1) * shape.bytes()).map(|_| noise() as u8).collect::<Vec<_>>().into(),
    };
    let cameras = kind.cameras.iter().map(track).collect();
    let timestep = |at: usize| Timestep {
        reward: 0.0,
        end: match at == frames {
            false => End::No,
            true if success => End::Terminated,
            true => End::Truncated,
        },
        success: (at == frames).then_some(success),
        facts: match at {
            0 => Vec::new(),
            _ => vec![
                ("intervene_flag".into(), f32::from(u8::from(at % 4 == 1))),
                ("segment_id".into(), (at / 2 % 256) as f32),
            ],
        },
    };
    Episode {
        row: 0,
        number,
        batch_step: frames as u64,
        success,
        task: Some(format!("task {}", number % 2).into()),
        cameras,
        states,
        actions,
        timesteps: (0..=frames).map(timestep).collect(),
    }
}
