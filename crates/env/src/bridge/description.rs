//! What the environments in Python report about themselves, and the checks on it.

use std::collections::HashSet;
use std::sync::Arc;

use plaudit_core::{ActionSpace, EnvSpec, FrameShape};
use serde::Deserialize;

use super::settings::BridgeSettings;

/// Numbers in one state or action row; a pixel-by-pixel state of 4096 x 4096 in colour has fewer.
const MOST_NUMBERS: u64 = 1 << 26;
/// Pixels along one side.
const MOST_PIXELS: u64 = 1 << 14;
const MOST_CHANNELS: u64 = 64;
const MOST_CAMERAS: usize = 64;
/// Choices of one discrete action: all of them are exact as `f32`.
const MOST_CHOICES: u64 = 1 << 24;
/// Control steps per second where Python says nothing: Gymnasium's habit for videos.
const USUAL_HZ: f64 = 30.0;

/// What the environments are like.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct EnvDescription {
    state_width: u64,
    cameras: Vec<CameraDescription>,
    actions: ActionsDescription,
    max_episode_steps: Option<u64>,
    control_hz: Option<f64>,
}

/// A camera.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct CameraDescription {
    name: String,
    height: u64,
    width: u64,
    channels: u64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
enum ActionsDescription {
    Discrete { discrete: u64 },
    Continuous { low: Vec<Option<f64>>, high: Vec<Option<f64>> },
}

impl EnvDescription {
    /// The environments this describes, or what about it cannot be.
    pub(super) fn spec(&self, settings: &BridgeSettings) -> Result<EnvSpec, String> {
        if self.state_width > MOST_NUMBERS {
            return Err(format!("a state of {} numbers", self.state_width));
        }
        Ok(EnvSpec {
            id: settings.id().into(),
            num_envs: settings.num_envs,
            state_width: self.state_width as usize,
            state_parts: Vec::new(),
            actions: self.actions.space()?,
            cameras: camera_shapes(&self.cameras)?,
            max_episode_steps: self.max_episode_steps.map(|steps| steps as usize),
            control_hz: match self.control_hz {
                Some(rate) if rate.is_finite() && rate > 0.0 => rate,
                _ => USUAL_HZ,
            },
        })
    }
}

/// Names and shapes of cameras, or what about them cannot be.
pub(super) fn camera_shapes(cameras: &[CameraDescription]) -> Result<Vec<(Arc<str>, FrameShape)>, String> {
    if cameras.len() > MOST_CAMERAS {
        return Err(format!("{} cameras", cameras.len()));
    }
    let mut names = HashSet::new();
    let one = |camera: &CameraDescription| {
        let CameraDescription { name, height, width, channels } = camera;
        let fits = |side: &u64, most: u64| (1..=most).contains(side);
        if !fits(height, MOST_PIXELS) || !fits(width, MOST_PIXELS) || !fits(channels, MOST_CHANNELS) {
            return Err(format!("camera `{name}` of {height} x {width} x {channels}"));
        }
        if !names.insert(name.clone()) {
            return Err(format!("two cameras named `{name}`"));
        }
        let [height, width, channels] = [*height, *width, *channels].map(|side| side as usize);
        Ok((name.as_str().into(), FrameShape { height, width, channels }))
    };
    cameras.iter().map(one).collect()
}

impl ActionsDescription {
    fn space(&self) -> Result<ActionSpace, String> {
        match self {
            Self::Discrete { discrete: n } if (1..=MOST_CHOICES).contains(n) => {
                Ok(ActionSpace::Discrete { n: *n as usize })
            }
            Self::Discrete { discrete } => Err(format!("{discrete} choices of an action")),
            Self::Continuous { low, high } => {
                if low.is_empty() || low.len() != high.len() || low.len() as u64 > MOST_NUMBERS {
                    return Err(format!("action bounds of {} and {} numbers", low.len(), high.len()));
                }
                let bounds = |side: &[Option<f64>], open: f32| {
                    side.iter().map(|bound| bound.map_or(open, |bound| bound as f32)).collect::<Vec<_>>()
                };
                let (low, high) = (bounds(low, f32::NEG_INFINITY), bounds(high, f32::INFINITY));
                match low.iter().zip(&high).find(|(low, high)| low > high) {
                    Some((low, high)) => Err(format!("an action between {low} and {high}")),
                    None => Ok(ActionSpace::Continuous { low, high }),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(json: &str) -> Result<EnvSpec, String> {
        let description: EnvDescription = serde_json::from_str(json).map_err(|error| error.to_string())?;
        description.spec(&BridgeSettings::gymnasium("Door-v0", 2))
    }

    fn description(state: &str, cameras: &str, actions: &str) -> String {
        format!(
            r#"{{"state_width": {state}, "cameras": [{cameras}], "actions": {actions},
                "max_episode_steps": null, "control_hz": null}}"#
        )
    }

    #[test]
    fn a_valid_description_becomes_a_spec() {
        let camera = r#"{"name": "wrist", "height": 64, "width": 48, "channels": 3}"#;
        let spec = spec(&description("7", camera, r#"{"low": [-1, null], "high": [1, 2.5]}"#)).unwrap();
        assert_eq!((spec.num_envs, spec.state_width, spec.control_hz), (2, 7, 30.0));
        let wrist = FrameShape { height: 64, width: 48, channels: 3 };
        assert_eq!(spec.cameras, [("wrist".into(), wrist)]);
        let (low, high) = (vec![-1.0, f32::NEG_INFINITY], vec![1.0, 2.5]);
        assert_eq!(spec.actions, ActionSpace::Continuous { low, high });
    }

    #[test]
    fn absurd_sizes_are_refused_before_anything_is_allocated() {
        let two = r#"{"discrete": 2}"#;
        let check = |json: String, words: &str| assert_eq!(spec(&json).unwrap_err(), words);
        check(description("99999999999", "", two), "a state of 99999999999 numbers");
        check(description("4", "", r#"{"discrete": 0}"#), "0 choices of an action");
        check(description("4", "", r#"{"discrete": 4294967296}"#), "4294967296 choices of an action");
        check(description("4", "", r#"{"low": [1], "high": []}"#), "action bounds of 1 and 0 numbers");
        check(description("4", "", r#"{"low": [1], "high": [-1]}"#), "an action between 1 and -1");
        let camera =
            |height: u64| format!(r#"{{"name": "eye", "height": {height}, "width": 9, "channels": 3}}"#);
        check(description("4", &camera(1 << 40), two), "camera `eye` of 1099511627776 x 9 x 3");
        check(description("4", &camera(0), two), "camera `eye` of 0 x 9 x 3");
        check(description("4", &[camera(9), camera(9)].join(","), two), "two cameras named `eye`");
        assert!(spec(&description("-1", "", two)).is_err(), "negative sizes are no sizes");
        assert!(spec("{}").is_err());
    }
}
