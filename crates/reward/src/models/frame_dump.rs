//! A reward model whose input frames are saved as images, sorted by its prediction, for debugging.
//!
//! The names are the guides': `resnet_success/000001_prob0.9731.png`, `resnet_fail/…`, each folder with its own count.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plaudit_core::{FrameShape, Score};

use super::{FrameRewardModel, FrameStack, RewardModelError};
use crate::hacking_monitor::OodCheck;
use crate::images::{ImageWriteError, Png};

/// Saves every frame that its model scores: the image of the model's first camera, as it was.
pub struct FrameDump {
    model: Box<dyn FrameRewardModel>,
    threshold: f32,
    success: DumpFolder,
    fail: DumpFolder,
}

/// A folder of images, numbered from 1; those of an earlier run stay.
struct DumpFolder {
    folder: PathBuf,
    last: AtomicU64,
}

impl FrameDump {
    /// Keeps what `model` is shown under `folder`. A score above `threshold` counts as success.
    pub fn new(
        model: Box<dyn FrameRewardModel>,
        threshold: f32,
        folder: &Path,
    ) -> Result<Self, RewardModelError> {
        let (success, fail) =
            (DumpFolder::open(folder.join("resnet_success"))?, DumpFolder::open(folder.join("resnet_fail"))?);
        Ok(Self { model, threshold, success, fail })
    }
}

impl FrameRewardModel for FrameDump {
    fn cameras(&self) -> &[Arc<str>] {
        self.model.cameras()
    }

    fn history_len(&self) -> usize {
        self.model.history_len()
    }

    fn scores(&self, frames: &[FrameStack<'_>]) -> Result<Vec<Score>, RewardModelError> {
        let scores = self.model.scores(frames)?;
        if let Some(camera) = self.model.cameras().first() {
            for (frame, score) in frames.iter().zip(&scores) {
                let folder = if score.get() > self.threshold { &self.success } else { &self.fail };
                let (shape, pixels) = frame
                    .now()
                    .image(camera)
                    .ok_or_else(|| RewardModelError::Camera { camera: camera.clone() })?;
                folder.write(shape, pixels, *score)?;
            }
        }
        Ok(scores)
    }

    fn threshold(&self) -> Option<f32> {
        self.model.threshold()
    }

    fn check_ood(&self, frames: &[FrameStack<'_>]) -> Result<Option<Vec<OodCheck>>, RewardModelError> {
        self.model.check_ood(frames)
    }
}

impl DumpFolder {
    fn open(folder: PathBuf) -> Result<Self, RewardModelError> {
        let cannot = |source| ImageWriteError { path: folder.clone(), source };
        fs::create_dir_all(&folder).map_err(cannot)?;
        let mut last = 0;
        for entry in fs::read_dir(&folder).map_err(cannot)? {
            let name = entry.map_err(cannot)?.file_name();
            let number = name.to_str().and_then(|name| name.split('_').next()).and_then(|id| id.parse().ok());
            last = last.max(number.unwrap_or(0));
        }
        Ok(Self { folder, last: AtomicU64::new(last) })
    }

    fn write(&self, shape: FrameShape, pixels: &[u8], score: Score) -> Result<(), RewardModelError> {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let path = self.folder.join(format!("{id:06}_prob{:.4}.png", score.get()));
        let png = Png::of(shape, pixels).bytes;
        Ok(fs::write(&path, png).map_err(|source| ImageWriteError { path, source })?)
    }
}

#[cfg(test)]
mod tests {
    use plaudit_core::{Frames, Obs};

    use super::*;

    /// Scores an image by its first byte.
    struct FirstByte([Arc<str>; 1]);

    impl FrameRewardModel for FirstByte {
        fn cameras(&self) -> &[Arc<str>] {
            &self.0
        }

        fn scores(&self, frames: &[FrameStack<'_>]) -> Result<Vec<Score>, RewardModelError> {
            let byte = |frame: &FrameStack<'_>| f32::from(frame.now().image("eye").unwrap().1[0]);
            Ok(frames.iter().map(|frame| Score::new(byte(frame) / 255.0).unwrap()).collect())
        }
    }

    fn score_all(dump: &FrameDump, firsts: &[u8]) {
        let pixels = firsts.iter().flat_map(|first| [*first, 1, 2, 3, 4, 5]).collect();
        let obs = Obs::from_state(firsts.len(), vec![0.0; firsts.len()]).unwrap();
        let obs = obs.with_camera("eye", Frames::new(FrameShape::rgb(1, 2), pixels).unwrap()).unwrap();
        let frames: Vec<_> = (0..firsts.len()).map(|row| FrameStack::single(obs.row(row))).collect();
        dump.scores(&frames).unwrap();
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = entries.collect();
        names.sort();
        names
    }

    #[test]
    fn images_are_sorted_numbered_and_kept_beside_those_of_earlier_runs() {
        let folder = tempfile::tempdir().unwrap();
        let open = || FrameDump::new(Box::new(FirstByte(["eye".into()])), 0.5, folder.path()).unwrap();
        score_all(&open(), &[255, 51, 204]);
        score_all(&open(), &[102, 153]);
        let success = folder.path().join("resnet_success");
        assert_eq!(
            names(&success),
            ["000001_prob1.0000.png", "000002_prob0.8000.png", "000003_prob0.6000.png"]
        );
        assert_eq!(
            names(&folder.path().join("resnet_fail")),
            ["000001_prob0.2000.png", "000002_prob0.4000.png"]
        );
        let file = fs::File::open(success.join("000002_prob0.8000.png")).unwrap();
        let mut reader = png::Decoder::new(std::io::BufReader::new(file)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.height, pixels), (2, 1, vec![204, 1, 2, 3, 4, 5]));
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_reported_before_anything_is_scored() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = FrameDump::new(Box::new(FirstByte(["eye".into()])), 0.5, file.path()).err().unwrap();
        assert!(error.to_string().contains("give a folder that can be written"), "{error}");
    }
}
