//! The image keys of a model, and which camera of an environment each one is.

use std::sync::Arc;

use plaudit_core::FrameShape;
use thiserror::Error;

/// The camera that `key` means: one of that name, or the part it plays in RLinf's observations (`main_images`,
/// `wrist_images`, `extra_view_images`, `extra_view_images[1]`).
pub fn camera_for<'a>(
    key: &str,
    cameras: &'a [(Arc<str>, FrameShape)],
) -> Result<&'a (Arc<str>, FrameShape), CameraError> {
    let on_the_hand = |name: &str| name.contains("hand") || name.contains("wrist");
    // As episodes have it: every camera but the first, one on the hand too.
    let extra = |at: usize| cameras.iter().skip(1).nth(at);
    let found = match key {
        _ if cameras.iter().any(|(name, _)| &**name == key) => {
            cameras.iter().find(|(name, _)| &**name == key)
        }
        "main_images" => cameras.first(),
        "wrist_images" => cameras.iter().find(|(name, _)| on_the_hand(name)),
        "extra_view_images" => extra(0),
        _ => index(key, "extra_view_images").and_then(extra),
    };
    found.ok_or_else(|| CameraError {
        key: key.into(),
        cameras: match cameras {
            [] => "no camera".into(),
            some => some.iter().map(|(name, _)| &**name).collect::<Vec<_>>().join(", "),
        },
    })
}

fn index(key: &str, name: &str) -> Option<usize> {
    key.strip_prefix(name)?.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

/// A camera that the environment does not have.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the environment has no camera for `{key}`; it has {cameras}")]
pub struct CameraError {
    /// What the model asks for.
    pub key: String,
    /// What there is.
    pub cameras: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_names_or_parts() {
        let cameras =
            ["base_camera", "hand_camera", "left", "right"].map(|name| (name.into(), FrameShape::rgb(1, 1)));
        let found = |key| camera_for(key, &cameras).map(|(name, _)| &**name);
        for (key, name) in [
            ("main_images", "base_camera"),
            ("wrist_images", "hand_camera"),
            ("extra_view_images", "hand_camera"),
            ("extra_view_images[0]", "hand_camera"),
            ("extra_view_images[2]", "right"),
            ("right", "right"),
        ] {
            assert_eq!(found(key), Ok(name), "{key}");
        }
        let error = found("extra_view_images[3]").unwrap_err().to_string();
        let words = "the environment has no camera for `extra_view_images[3]`; \
                     it has base_camera, hand_camera, left, right";
        assert_eq!(error, words);
        let error = camera_for("main_images", &[]).unwrap_err().to_string();
        assert_eq!(error, "the environment has no camera for `main_images`; it has no camera");
    }
}
