//! Where everything lies in the memory that both sides share.

use plaudit_core::EnvSpec;
use plaudit_pyprocess::{LayoutBuilder, Region};
use serde_json::Value;

/// Where the observations of all rows lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ObsRegions {
    /// f32, `[B, state_width]`.
    pub(super) state: Region,
    /// u8, `[B, H, W, C]` each.
    pub(super) cameras: Vec<Region>,
}

/// Where everything lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MemoryLayout {
    /// f32, `[B, action_width]`.
    pub(super) actions: Region,
    /// u32, `[B]`: the seed of each row's next episode.
    pub(super) seeds: Region,
    /// f32, `[B]`.
    pub(super) reward: Region,
    /// u8, `[B]`: 1 for a termination, 2 for a truncation, 3 for both.
    pub(super) end: Region,
    /// u8, `[B]`.
    pub(super) success: Region,
    /// f32, `[facts, B]`.
    pub(super) facts: Region,
    /// What the policy sees next.
    pub(super) now: ObsRegions,
    /// What ended rows saw last.
    pub(super) last: ObsRegions,
    /// Bytes of all of it.
    pub(super) bytes: usize,
    /// The same for Python: `{name: [dtype, shape, offset]}`.
    pub(super) for_python: Value,
}

impl MemoryLayout {
    /// For environments like these, with so many `facts`.
    pub(super) fn new(spec: &EnvSpec, facts: usize) -> Self {
        let (b, mut builder) = (spec.num_envs, LayoutBuilder::default());
        let actions = builder.add("actions", "f4", &[b, spec.actions.width()]);
        let seeds = builder.add("seeds", "u4", &[b]);
        let reward = builder.add("reward", "f4", &[b]);
        let end = builder.add("end", "u1", &[b]);
        let success = builder.add("success", "u1", &[b]);
        let facts = builder.add("facts", "f4", &[facts, b]);
        let (now, last) = (obs_regions(&mut builder, "now", spec), obs_regions(&mut builder, "last", spec));
        let (bytes, for_python) = builder.finish();
        Self { actions, seeds, reward, end, success, facts, now, last, bytes, for_python }
    }

    /// Bytes that one row of environments like these takes on both sides, to be asked before a layout is made.
    pub(super) fn bytes_each(spec: &EnvSpec) -> u64 {
        let pixels: u64 = spec.cameras.iter().map(|(_, shape)| shape.bytes() as u64).sum();
        let numbers = (spec.state_width + spec.actions.width() + 16) as u64 * 4;
        3 * (numbers + pixels)
    }
}

/// The next arrays, of observations like those of `spec`.
fn obs_regions(builder: &mut LayoutBuilder, name: &str, spec: &EnvSpec) -> ObsRegions {
    let state = builder.add(&format!("{name}_state"), "f4", &[spec.num_envs, spec.state_width]);
    let camera = |(at, (_, shape)): (usize, &(_, plaudit_core::FrameShape))| {
        let shape = [spec.num_envs, shape.height, shape.width, shape.channels];
        builder.add(&format!("{name}_camera_{at}"), "u1", &shape)
    };
    ObsRegions { state, cameras: spec.cameras.iter().enumerate().map(camera).collect() }
}

#[cfg(test)]
mod tests {
    use plaudit_core::{ActionSpace, FrameShape};
    use serde_json::json;

    use super::*;

    #[test]
    fn arrays_do_not_overlap_and_python_gets_the_same() {
        let spec = EnvSpec {
            id: "Door-v0".into(),
            num_envs: 3,
            state_width: 5,
            state_parts: vec![],
            actions: ActionSpace::Discrete { n: 4 },
            cameras: vec![("eye".into(), FrameShape::rgb(2, 7))],
            max_episode_steps: None,
            control_hz: 1.0,
        };
        let layout = MemoryLayout::new(&spec, 2);
        let MemoryLayout { actions, seeds, reward, end, success, facts, now, last, .. } = &layout;
        let all = [
            actions,
            seeds,
            reward,
            end,
            success,
            facts,
            &now.state,
            &now.cameras[0],
            &last.state,
            &last.cameras[0],
        ];
        for pair in all.windows(2) {
            assert!(pair[0].all().end <= pair[1].all().start, "{pair:?}");
            assert_eq!(pair[1].offset % 64, 0);
        }
        assert_eq!(layout.last.cameras[0].all().end, layout.bytes);
        assert_eq!(layout.now.cameras[0].row(2).len(), 2 * 7 * 3);
        assert_eq!(layout.for_python["now_camera_0"], json!(["u1", [3, 2, 7, 3], now.cameras[0].offset]));
        assert_eq!(layout.for_python["facts"], json!(["f4", [2, 3], facts.offset]));
    }
}
