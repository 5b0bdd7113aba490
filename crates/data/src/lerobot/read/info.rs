//! `meta/info.json`: what a dataset is.

use std::path::Path;

use serde_json::{Map, Value};

use super::json::read_json;
use super::limits::Limits;
use crate::lerobot::error::{InFile, LeRobotError, Problem, Result, mismatch};
use crate::lerobot::feature::Feature;

/// Which generation of files a dataset has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// A parquet file per episode; lists of episodes and tasks as lines of JSON.
    V2,
    /// Many episodes per parquet file.
    V3,
}

/// What a dataset says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Info {
    /// Which generation of files it has.
    pub version: Version,
    /// The robot, if it is named.
    pub robot_type: Option<String>,
    /// Frames per second, if they are named.
    pub fps: Option<f64>,
    /// Episodes, as it counts them.
    pub total_episodes: Option<u64>,
    /// Frames of all episodes, as it counts them.
    pub total_frames: Option<u64>,
    /// Its columns, in order.
    pub features: Vec<Feature>,
    pub(super) data_path: String,
    pub(super) video_path: Option<String>,
    pub(super) chunks_size: u64,
}

impl Info {
    pub(super) fn read(path: &Path, limits: &Limits) -> Result<Self> {
        let json = read_json(path, limits.json_bytes)?;
        let version = version(&json).in_file(path)?;
        let features = json.get("features").and_then(Value::as_object);
        let features = features.ok_or_else(|| missing(path, "the object `features`"))?;
        let data_path = json.get("data_path").and_then(Value::as_str);
        let video_path = json.get("video_path").and_then(Value::as_str).map(str::to_owned);
        Ok(Self {
            version,
            robot_type: json.get("robot_type").and_then(Value::as_str).map(str::to_owned),
            fps: json.get("fps").and_then(Value::as_f64),
            total_episodes: json.get("total_episodes").and_then(Value::as_u64),
            total_frames: json.get("total_frames").and_then(Value::as_u64),
            features: read_features(path, features)?,
            data_path: data_path.ok_or_else(|| missing(path, "the text `data_path`"))?.to_owned(),
            video_path,
            chunks_size: json.get("chunks_size").and_then(Value::as_u64).unwrap_or(1000).max(1),
        })
    }

    /// The feature of that name.
    pub fn feature(&self, name: &str) -> Option<&Feature> {
        self.features.iter().find(|feature| feature.name == name)
    }
}

fn version(json: &Value) -> Result<Version, Problem> {
    match json.get("codebase_version").and_then(Value::as_str) {
        Some(version) if version.starts_with("v3.") => Ok(Version::V3),
        Some("v2.0" | "v2.1") => Ok(Version::V2),
        Some(other) => {
            let hint = "v2.0, v2.1 and v3 are; the lerobot package converts others";
            Err(Problem::Unsupported { what: format!("LeRobot {other}"), hint })
        }
        None => {
            Err(Problem::Missing { what: "the text `codebase_version`", hint: "is this a LeRobot dataset?" })
        }
    }
}

fn read_features(path: &Path, features: &Map<String, Value>) -> Result<Vec<Feature>> {
    features.iter().map(|(name, json)| feature(name, json).in_column(path, name)).collect()
}

fn feature(name: &str, json: &Value) -> Result<Feature, Problem> {
    let dtype = json.get("dtype").and_then(Value::as_str);
    let dtype = dtype.ok_or_else(|| mismatch("a text `dtype`", brief(json.get("dtype"))))?;
    let shape = json.get("shape").and_then(Value::as_array);
    let size = |size: &Value| size.as_u64().and_then(|size| usize::try_from(size).ok());
    let shape: Option<Vec<usize>> = shape.and_then(|shape| shape.iter().map(size).collect());
    let shape = shape.ok_or_else(|| mismatch("a list of sizes `shape`", brief(json.get("shape"))))?;
    let texts =
        |names: &Vec<Value>| names.iter().filter_map(|name| Some(name.as_str()?.to_owned())).collect();
    let names = json.get("names").and_then(Value::as_array).map(texts).unwrap_or_default();
    let about = json.get("info").or_else(|| json.get("video_info"));
    let codec = about.and_then(|info| info.get("video.codec")).and_then(Value::as_str).map(str::to_owned);
    Ok(Feature { name: name.to_owned(), dtype: dtype.to_owned(), shape, names, codec })
}

fn brief(value: Option<&Value>) -> String {
    let text = value.map_or("nothing".into(), Value::to_string);
    if text.chars().count() > 60 { text.chars().take(57).chain("...".chars()).collect() } else { text }
}

fn missing(path: &Path, what: &'static str) -> LeRobotError {
    LeRobotError::new(path, Problem::Missing { what, hint: "is this a LeRobot dataset?" })
}
