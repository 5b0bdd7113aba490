//! What a judge says about itself, in a file beside its weights.
//!
//! Weights of a large model are many gigabytes in several files, and those of adapters belong to another program's
//! format, so that a small file of its own is what an audit can change: `plaudit_judge.json`.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use plaudit_data::windows::Objective;
use plaudit_nn::qwen3_vl::{FrameSampling, PromptLayout};
use plaudit_pyfiles::AtomicFile;
use serde::{Deserialize, Serialize};

/// What the file calls itself.
const FORMAT: &str = "plaudit judge";
/// The newest version that this code reads.
const VERSION: u32 = 1;

/// What is known of a judge.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JudgeCard {
    /// Where the words stood when it was tuned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_layout: Option<PromptLayout>,
    /// How windows were shown to it when it was tuned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowFormat>,
    /// What it was tuned to judge; a card that does not say is of a judge of trends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objectives: Vec<Objective>,
    /// What it was tuned to answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// What the labels' logits are divided by, as an audit found it honest. Not set: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_temperature: Option<f64>,
    /// The questions it was tuned with, where they are few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<String>,
    /// The manifests of the windows it learned from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trained_on: Vec<PathBuf>,
    /// The manifests of the windows it was chosen on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub validated_on: Vec<PathBuf>,
}

/// How windows were shown to a judge when it was tuned.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WindowFormat {
    /// How many cameras; each is a video.
    pub cameras: usize,
    /// Frames of a window, before the model's processor chooses among them.
    pub frames: usize,
    /// Height and width of each frame.
    pub size: [usize; 2],
    /// Which frames the model sees.
    pub sampling: FrameSampling,
    /// Frames per second, which timestamps go by.
    pub fps: f64,
}

/// The largest side of a frame, and the most frames and cameras, that a card is believed.
const MAX_SIDE: usize = 1 << 14;

impl WindowFormat {
    fn problem(&self) -> Option<String> {
        let Self { cameras, frames, size: [height, width], fps, .. } = *self;
        let counts = [("cameras", cameras), ("frames", frames), ("size", height), ("size", width)];
        let odd = counts.into_iter().find(|(_, count)| !(1..=MAX_SIDE).contains(count));
        let odd =
            odd.map(|(key, count)| format!("window.{key} is {count}, and must be from 1 to {MAX_SIDE}"));
        odd.or_else(|| {
            let is_rate = fps.is_finite() && fps > 0.0;
            (!is_rate).then(|| format!("window.fps is {fps}, and must be above 0"))
        })
    }
}

/// The card with what tells the file from others.
#[derive(Serialize, Deserialize)]
struct Written {
    format: String,
    version: u32,
    #[serde(flatten)]
    card: JudgeCard,
}

/// A card that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", file.display())]
pub struct JudgeCardError {
    /// The card.
    pub file: PathBuf,
    /// What is wrong, and what to do.
    pub problem: String,
}

impl JudgeCard {
    /// The file's name.
    pub const FILE: &str = "plaudit_judge.json";

    /// Where the card of a judge is.
    #[must_use]
    pub fn file_in(folder: &Path) -> PathBuf {
        folder.join(Self::FILE)
    }

    /// The card in the folder of a judge: that of its adapters, or else that of the model. `None` where there is none.
    ///
    /// # Errors
    /// When there is one that makes no sense.
    pub fn read(folder: &Path) -> Result<Option<Self>, JudgeCardError> {
        let file = Self::file_in(folder);
        let wrong = |problem: String| JudgeCardError { file: file.clone(), problem };
        let text = match fs::read_to_string(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| wrong(format!("cannot be read ({error})")))?,
        };
        let again = "delete it, and audit the judge again";
        let written: Written =
            serde_json::from_str(&text).map_err(|error| wrong(format!("{error}; {again}")))?;
        if written.format != FORMAT || written.version > VERSION {
            let (format, version) = (written.format, written.version);
            return Err(wrong(format!(
                "is version {version} of `{format}`; use a newer plaudit, or {again}"
            )));
        }
        if let Some(problem) = written.card.window.as_ref().and_then(WindowFormat::problem) {
            return Err(wrong(format!("{problem}; {again}")));
        }
        match written.card.label_temperature {
            Some(odd) if !(odd.is_finite() && odd > 0.0) => {
                Err(wrong(format!("label_temperature is {odd}, and must be above 0; {again}")))
            }
            _ => Ok(Some(written.card)),
        }
    }

    /// Writes it into the folder of a judge; it appears whole or not at all.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn write(&self, folder: &Path) -> Result<PathBuf, JudgeCardError> {
        let file = Self::file_in(folder);
        let written = Written { format: FORMAT.into(), version: VERSION, card: self.clone() };
        let write = || {
            let mut out = AtomicFile::create(&file)?;
            serde_json::to_writer_pretty(&mut out, &written)?;
            out.write_all(b"\n")?;
            out.commit()
        };
        match write() {
            Ok(()) => Ok(file),
            Err(error) => Err(JudgeCardError {
                problem: format!("cannot be written ({error}); give a folder that can be written"),
                file,
            }),
        }
    }

    /// What the labels' logits are divided by.
    #[must_use]
    pub fn temperature(&self) -> f64 {
        self.label_temperature.unwrap_or(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(JudgeCard::read(folder.path()).unwrap(), None);
        let card = JudgeCard {
            prompt_layout: Some(PromptLayout::SharedPrefix),
            window: Some(WindowFormat {
                cameras: 2,
                frames: 30,
                size: [64, 48],
                sampling: FrameSampling::All,
                fps: 20.0,
            }),
            objectives: vec![Objective::Progress],
            labels: vec!["positive".into()],
            label_temperature: Some(1.75),
            questions: vec!["Better?".into()],
            trained_on: vec!["windows/train/segments.jsonl".into()],
            validated_on: Vec::new(),
        };
        card.write(folder.path()).unwrap();
        assert_eq!(JudgeCard::read(folder.path()).unwrap(), Some(card));
        assert_eq!(JudgeCard::default().temperature(), 1.0);
    }

    #[test]
    fn cards_that_make_no_sense_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        for (text, expected) in [
            ("{", "audit the judge again"),
            (r#"{"format": "plaudit judge", "version": 9}"#, "use a newer plaudit"),
            (r#"{"format": "a cake", "version": 1}"#, "`a cake`"),
            (r#"{"format": "plaudit judge", "version": 1, "label_temperature": 0}"#, "must be above 0"),
            (r#"{"format": "plaudit judge", "version": 1, "prompt_layout": "round"}"#, "unknown variant"),
            (
                r#"{"format": "plaudit judge", "version": 1, "window": {"cameras": 0, "frames": 5, "size": [1, 1],
                    "sampling": "all", "fps": 2}}"#,
                "window.cameras is 0",
            ),
        ] {
            fs::write(folder.path().join(JudgeCard::FILE), text).unwrap();
            let error = JudgeCard::read(folder.path()).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains(JudgeCard::FILE), "{text}: {error}");
        }
    }
}
