//! The inputs of a model: the image of a camera now, or some steps ago (a frame stack).

use std::fmt;
use std::str::FromStr;

use super::error::DatasetError;

/// One image of each frame that a model sees: `main_images`, or `main_images@-4` for the image of that camera four
/// steps before. Before an episode's first frame, it is the first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ViewKey {
    /// The camera.
    pub camera: String,
    /// How many steps ago.
    pub back: usize,
}

impl FromStr for ViewKey {
    type Err = DatasetError;

    fn from_str(text: &str) -> Result<Self, DatasetError> {
        let wrong = || DatasetError::View { text: text.into() };
        let (camera, back) = match text.split_once("@-") {
            Some((camera, back)) => (camera, back.parse().map_err(|_| wrong())?),
            None => (text, 0),
        };
        if camera.is_empty() || camera.contains('@') {
            return Err(wrong());
        }
        Ok(Self { camera: camera.into(), back })
    }
}

impl fmt::Display for ViewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.back {
            0 => f.write_str(&self.camera),
            back => write!(f, "{}@-{back}", self.camera),
        }
    }
}

impl ViewKey {
    /// The cameras of some views, each once, in order.
    #[must_use]
    pub fn cameras(views: &[Self]) -> Vec<String> {
        let mut cameras: Vec<String> = Vec::new();
        for view in views {
            if !cameras.contains(&view.camera) {
                cameras.push(view.camera.clone());
            }
        }
        cameras
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_read_as_they_are_written() {
        for (text, camera, back) in
            [("main_images", "main_images", 0), ("a[1]@-4", "a[1]", 4), ("wrist-2@-10", "wrist-2", 10)]
        {
            let view: ViewKey = text.parse().unwrap();
            assert_eq!((view.camera.as_str(), view.back), (camera, back));
            assert_eq!(view.to_string(), text);
        }
        for text in ["", "@-1", "main@-", "main@-x", "main@3"] {
            assert!(text.parse::<ViewKey>().is_err(), "{text}");
        }
    }
}
