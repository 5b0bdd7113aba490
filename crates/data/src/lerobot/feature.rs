//! The columns a dataset declares in `meta/info.json`.

use plaudit_core::FrameShape;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// One column: its kind and the shape of a frame's value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feature {
    /// Its name, such as `state` or `observation.images.top`.
    pub name: String,
    /// `float32`, `bool`, `image` and so on, in numpy's words.
    pub dtype: String,
    /// Shape of one frame's value.
    pub shape: Vec<usize>,
    /// Names of the axes or of the numbers; empty where the dataset names none.
    pub names: Vec<String>,
    /// The codec of a video, where the dataset says.
    pub codec: Option<String>,
}

impl Feature {
    pub(super) fn numbers(name: &str, dtype: &str, width: usize) -> Self {
        let names = vec![name.to_owned()];
        Self { name: name.into(), dtype: dtype.into(), shape: vec![width], names, codec: None }
    }

    pub(super) fn image(name: String, shape: FrameShape) -> Self {
        let names = ["height", "width", "channel"].map(str::to_owned).to_vec();
        let shape = vec![shape.height, shape.width, shape.channels];
        Self { name, dtype: "image".into(), shape, names, codec: None }
    }

    /// Images in a video file of that codec, in lerobot's words.
    pub(super) fn video(name: String, shape: FrameShape, codec: &str) -> Self {
        Self { dtype: "video".into(), codec: Some(codec.to_owned()), ..Self::image(name, shape) }
    }

    /// Whether it is an image inside the parquet files.
    pub fn is_image(&self) -> bool {
        self.dtype == "image"
    }

    /// Whether it is an image in a video file.
    pub fn is_video(&self) -> bool {
        self.dtype == "video"
    }

    /// Numbers in one frame's value; nothing if that is more than can be counted.
    pub fn width(&self) -> Option<usize> {
        self.shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size))
    }

    /// Height, width and channels of an image, whichever way the axes are written.
    pub fn frame_shape(&self) -> Option<FrameShape> {
        let &[first, second, third] = &self.shape[..] else { return None };
        let named_first = self.names.first().is_some_and(|name| name.starts_with("channel"));
        let looks_first = self.names.is_empty() && matches!(first, 1 | 3 | 4) && !matches!(third, 1 | 3 | 4);
        let (height, width, channels) =
            if named_first || looks_first { (second, third, first) } else { (first, second, third) };
        Some(FrameShape { height, width, channels })
    }

    /// As `meta/info.json` has it, in a dataset of so many frames per second.
    pub(super) fn to_json(&self, fps: &Value) -> Value {
        let names = if self.names.is_empty() { Value::Null } else { json!(self.names) };
        let mut feature = json!({ "dtype": self.dtype, "shape": self.shape, "names": names });
        if let (Some(codec), [height, width, channels]) = (&self.codec, &self.shape[..]) {
            feature["info"] = json!({
                "video.height": height,
                "video.width": width,
                "video.codec": codec,
                "video.pix_fmt": "yuv420p",
                "video.is_depth_map": false,
                "video.fps": fps,
                "video.channels": channels,
                "has_audio": false,
            });
        }
        feature
    }

    /// As it stands in the parquet files for Hugging Face's `datasets`.
    fn to_hugging_face(&self) -> Value {
        let value = json!({ "dtype": self.dtype, "_type": "Value" });
        match &self.shape[..] {
            _ if self.is_image() => json!({ "_type": "Image" }),
            [1] => value,
            _ => json!({ "feature": value, "length": self.shape[0], "_type": "List" }),
        }
    }
}

/// The features that every dataset has (LeRobot's `DEFAULT_FEATURES`).
pub(super) fn default_features() -> Vec<Feature> {
    let names = [
        ("timestamp", "float32"),
        ("frame_index", "int64"),
        ("episode_index", "int64"),
        ("index", "int64"),
        ("task_index", "int64"),
    ];
    let unnamed =
        |(name, dtype): (&str, &str)| Feature { names: Vec::new(), ..Feature::numbers(name, dtype, 1) };
    names.map(unnamed).to_vec()
}

/// The text under the key `huggingface` in each data file. Videos are not in it.
pub(super) fn hugging_face(features: &[Feature]) -> String {
    let inside = features.iter().filter(|feature| !feature.is_video());
    let features: Map<String, Value> =
        inside.map(|feature| (feature.name.clone(), feature.to_hugging_face())).collect();
    json!({ "info": { "features": features } }).to_string()
}

/// A short description, to show how two datasets differ.
pub(super) fn describe(features: &[Feature]) -> String {
    let one = |feature: &Feature| format!("{} {:?}", feature.name, feature.shape);
    features.iter().filter(|feature| feature.shape != [1]).map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shaped(shape: &[usize], names: &[&str]) -> Option<FrameShape> {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        Feature { shape: shape.to_vec(), names, ..Feature::image("image".into(), FrameShape::rgb(1, 1)) }
            .frame_shape()
    }

    #[test]
    fn axes_are_found_by_name_and_else_by_size() {
        let want = Some(FrameShape::rgb(48, 64));
        assert_eq!(shaped(&[48, 64, 3], &["height", "width", "channel"]), want);
        assert_eq!(shaped(&[3, 48, 64], &["channels", "height", "width"]), want);
        assert_eq!(shaped(&[3, 48, 64], &[]), want);
        assert_eq!(shaped(&[48, 64, 3], &[]), want);
        assert_eq!(shaped(&[48, 64], &[]), None);
    }

    #[test]
    fn a_width_too_large_to_count_is_none() {
        assert_eq!(
            Feature { shape: vec![usize::MAX, 2], ..Feature::numbers("a", "float32", 1) }.width(),
            None
        );
    }
}
