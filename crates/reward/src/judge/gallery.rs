//! A judge whose pictures are kept, sorted by its verdict, for people to look through.
//!
//! The names are the guides': `resnet_success/000001_prob0.9731.png`, `resnet_fail/…`, each folder with its own count.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plaudit_core::{FrameShape, Score};

use super::{FrameJudge, JudgeError, Moment};
use crate::pictures::{PictureError, Png};
use crate::watch::Look;

/// Keeps every picture that its judge is shown: what the judge's first camera saw, as it was.
pub struct Gallery {
    judge: Box<dyn FrameJudge>,
    threshold: f32,
    success: Wall,
    fail: Wall,
}

/// A folder of pictures, numbered from 1; those of an earlier run stay.
struct Wall {
    folder: PathBuf,
    last: AtomicU64,
}

impl Gallery {
    /// Keeps what `judge` is shown under `folder`. A score above `threshold` counts as success.
    pub fn new(judge: Box<dyn FrameJudge>, threshold: f32, folder: &Path) -> Result<Self, JudgeError> {
        let (success, fail) =
            (Wall::open(folder.join("resnet_success"))?, Wall::open(folder.join("resnet_fail"))?);
        Ok(Self { judge, threshold, success, fail })
    }
}

impl FrameJudge for Gallery {
    fn cameras(&self) -> &[Arc<str>] {
        self.judge.cameras()
    }

    fn reach(&self) -> usize {
        self.judge.reach()
    }

    fn scores(&self, moments: &[Moment<'_>]) -> Result<Vec<Score>, JudgeError> {
        let scores = self.judge.scores(moments)?;
        if let Some(camera) = self.judge.cameras().first() {
            for (moment, score) in moments.iter().zip(&scores) {
                let wall = if score.get() > self.threshold { &self.success } else { &self.fail };
                let (shape, pixels) = moment
                    .now()
                    .image(camera)
                    .ok_or_else(|| JudgeError::Camera { camera: camera.clone() })?;
                wall.hang(shape, pixels, *score)?;
            }
        }
        Ok(scores)
    }

    fn threshold(&self) -> Option<f32> {
        self.judge.threshold()
    }

    fn look(&self, moments: &[Moment<'_>]) -> Result<Option<Vec<Look>>, JudgeError> {
        self.judge.look(moments)
    }
}

impl Wall {
    fn open(folder: PathBuf) -> Result<Self, JudgeError> {
        let cannot = |source| PictureError { path: folder.clone(), source };
        fs::create_dir_all(&folder).map_err(cannot)?;
        let mut last = 0;
        for entry in fs::read_dir(&folder).map_err(cannot)? {
            let name = entry.map_err(cannot)?.file_name();
            let number = name.to_str().and_then(|name| name.split('_').next()).and_then(|id| id.parse().ok());
            last = last.max(number.unwrap_or(0));
        }
        Ok(Self { folder, last: AtomicU64::new(last) })
    }

    fn hang(&self, shape: FrameShape, pixels: &[u8], score: Score) -> Result<(), JudgeError> {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let path = self.folder.join(format!("{id:06}_prob{:.4}.png", score.get()));
        let png = Png::of(shape, pixels).bytes;
        Ok(fs::write(&path, png).map_err(|source| PictureError { path, source })?)
    }
}

#[cfg(test)]
mod tests {
    use plaudit_core::{Frames, Obs};

    use super::*;

    /// Scores a picture by its first byte.
    struct FirstByte([Arc<str>; 1]);

    impl FrameJudge for FirstByte {
        fn cameras(&self) -> &[Arc<str>] {
            &self.0
        }

        fn scores(&self, moments: &[Moment<'_>]) -> Result<Vec<Score>, JudgeError> {
            let byte = |moment: &Moment<'_>| f32::from(moment.now().image("eye").unwrap().1[0]);
            Ok(moments.iter().map(|moment| Score::new(byte(moment) / 255.0).unwrap()).collect())
        }
    }

    fn judged(gallery: &Gallery, firsts: &[u8]) {
        let pixels = firsts.iter().flat_map(|first| [*first, 1, 2, 3, 4, 5]).collect();
        let obs = Obs::from_state(firsts.len(), vec![0.0; firsts.len()]).unwrap();
        let obs = obs.with_camera("eye", Frames::new(FrameShape::rgb(1, 2), pixels).unwrap()).unwrap();
        let moments: Vec<_> = (0..firsts.len()).map(|row| Moment::alone(obs.row(row))).collect();
        gallery.scores(&moments).unwrap();
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = entries.collect();
        names.sort();
        names
    }

    #[test]
    fn pictures_are_sorted_numbered_and_kept_beside_those_of_earlier_runs() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Gallery::new(Box::new(FirstByte(["eye".into()])), 0.5, folder.path()).unwrap();
        judged(&open(), &[255, 51, 204]);
        judged(&open(), &[102, 153]);
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
    fn a_folder_that_cannot_be_written_is_told_before_anything_is_judged() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Gallery::new(Box::new(FirstByte(["eye".into()])), 0.5, file.path()).err().unwrap();
        assert!(error.to_string().contains("give a folder that can be written"), "{error}");
    }
}
