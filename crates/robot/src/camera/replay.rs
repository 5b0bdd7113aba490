//! Recorded frames in a camera's place.

use std::fs;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plaudit_core::{FrameShape, Frames};

use super::jpeg::{self, LARGEST_JPEG, LARGEST_SIDE};
use crate::{Camera, CameraError, CameraFrame, Clock, FrameFit, Time};

/// The most memory that the frames of a recording may take: six hours of 128x128 at 1 Hz.
const LARGEST_RECORDING: usize = 1 << 30;
/// How long a recording of one frame is.
const SINGLE_FRAME: Duration = Duration::from_millis(100);
/// Endings of files that are frames.
const ENDINGS: [&str; 3] = ["jpg", "jpeg", "png"];

/// What comes after the last frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AtEnd {
    /// Nothing: the last frame grows old, as with a camera that was unplugged.
    #[default]
    Stop,
    /// The first frame, one frame's duration after the last.
    Repeat,
}

/// A camera that shows a recording, beginning when it is made. Its frames lie in memory, so it never waits.
pub struct ReplayCamera {
    name: String,
    shape: FrameShape,
    /// Frames and when they come after the start, in order.
    frames: Vec<(Duration, Arc<Frames>)>,
    /// How long after a frame it comes again, if it does: the recording and a usual pause.
    period: Duration,
    at_end: AtEnd,
    start: Time,
    clock: Arc<dyn Clock>,
}

impl ReplayCamera {
    /// Shows frames of one image each, at these times after now.
    pub fn new(
        name: &str,
        frames: Vec<(Duration, Frames)>,
        at_end: AtEnd,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, CameraError> {
        let wrong = |why: String| CameraError::Broken { name: name.into(), why };
        let Some((_, first)) = frames.first() else { return Err(wrong("the recording is empty".into())) };
        let shape = first.shape;
        if let Some(at) = frames.iter().position(|(_, frame)| frame.shape != shape || frame.count() != 1) {
            return Err(wrong(format!("frame {at} of the recording is no image of the size of frame 0")));
        }
        if let Some(at) = frames.windows(2).position(|two| two[0].0 >= two[1].0) {
            return Err(wrong(format!("frame {} of the recording is not after frame {at}", at + 1)));
        }
        let lasts = frames.last().map_or(Duration::ZERO, |(last, _)| *last - frames[0].0);
        let pauses = u32::try_from(frames.len() - 1).unwrap_or(u32::MAX);
        let period = lasts + lasts.checked_div(pauses).unwrap_or(SINGLE_FRAME);
        let frames = frames.into_iter().map(|(time, frame)| (time, Arc::new(frame))).collect();
        Ok(Self { name: name.into(), shape, frames, period, at_end, start: clock.now(), clock })
    }

    /// Shows the JPEG and PNG files of a folder in the order of their names, `hz` of them a second.
    pub fn open(
        name: &str,
        folder: &Path,
        hz: f64,
        at_end: AtEnd,
        fit: impl Into<FrameFit>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, CameraError> {
        let wrong = |why: String| CameraError::Unreachable {
            name: name.into(),
            address: folder.display().to_string(),
            why,
        };
        if !(hz.is_finite() && (1e-3..=1e3).contains(&hz)) {
            return Err(wrong(format!("{hz} frames a second cannot be shown; 0.001 to 1000 can")));
        }
        let (files, fit) = (frame_files(folder).map_err(|error| wrong(error.to_string()))?, fit.into());
        fit.check().map_err(wrong)?;
        let bytes = files.len().saturating_mul(fit.shape().bytes());
        if bytes > LARGEST_RECORDING {
            return Err(wrong(format!(
                "{} frames of {} bytes need more than 1 GiB",
                files.len(),
                fit.shape().bytes()
            )));
        }
        if files.is_empty() {
            return Err(wrong("it has no .jpg, .jpeg or .png files".into()));
        }
        let read = |(at, path): (usize, &PathBuf)| {
            let image = read_image(path).map_err(|why| wrong(format!("{}: {why}", path.display())))?;
            Ok((Duration::from_secs_f64(at as f64 / hz), fit.apply(image)))
        };
        let frames = files.iter().enumerate().map(read).collect::<Result<Vec<_>, CameraError>>()?;
        Self::new(name, frames, at_end, clock)
    }
}

impl Camera for ReplayCamera {
    fn name(&self) -> &str {
        &self.name
    }

    fn shape(&self) -> FrameShape {
        self.shape
    }

    fn newest(&mut self) -> Option<CameraFrame> {
        let elapsed = self.clock.now().since(self.start);
        let rounds = match self.at_end {
            AtEnd::Stop => 0,
            AtEnd::Repeat => u64::try_from(elapsed.as_nanos() / self.period.as_nanos().max(1)).ok()?,
        };
        let began = self.period.saturating_mul(u32::try_from(rounds).ok()?);
        let shown = self.frames.partition_point(|(time, _)| *time <= elapsed.saturating_sub(began));
        // Between the rounds, before the first frame comes again, the last one is still the newest.
        let (began, rounds, shown) = match (shown, rounds) {
            (0, 0) => return None,
            (0, _) => (began.saturating_sub(self.period), rounds - 1, self.frames.len()),
            _ => (began, rounds, shown),
        };
        let (time, image) = self.frames.get(shown - 1)?;
        let number = rounds * self.frames.len() as u64 + shown as u64;
        Some(CameraFrame { image: image.clone(), time: self.start + began + *time, number })
    }

    fn trouble(&self) -> Option<CameraError> {
        let end = self.start + self.frames.first().map_or(Duration::ZERO, |(first, _)| *first) + self.period;
        let is_over = self.at_end == AtEnd::Stop && self.clock.now() > end;
        is_over.then(|| CameraError::Broken { name: self.name.clone(), why: "the recording is over".into() })
    }
}

/// The frames of a folder in the order of their names.
fn frame_files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let is_frame = |path: &PathBuf| {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known))
    };
    let paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    let mut files: Vec<PathBuf> = paths.into_iter().filter(is_frame).collect();
    files.sort();
    Ok(files)
}

fn read_image(path: &Path) -> Result<Frames, String> {
    let file = fs::File::open(path).map_err(|error| error.to_string())?;
    if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("png")) {
        return read_png(BufReader::new(file));
    }
    let mut bytes = Vec::new();
    // One more than allowed, so that a longer file is seen to be too long.
    file.take(LARGEST_JPEG as u64 + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    jpeg::decode(&bytes)
}

/// A PNG as RGB, without its transparency.
fn read_png(file: BufReader<fs::File>) -> Result<Frames, String> {
    let limits = png::Limits { bytes: 4 * LARGEST_SIDE * LARGEST_SIDE };
    let mut decoder = png::Decoder::new_with_limits(file, limits);
    decoder.set_transformations(png::Transformations::EXPAND | png::Transformations::STRIP_16);
    let mut reader = decoder.read_info().map_err(|error| error.to_string())?;
    let (width, height) = (reader.info().width as usize, reader.info().height as usize);
    if width > LARGEST_SIDE || height > LARGEST_SIDE {
        return Err(format!("{width}x{height} is more than the {LARGEST_SIDE}x{LARGEST_SIDE} that are read"));
    }
    let mut pixels = vec![0; reader.output_buffer_size().ok_or("it is too large")?];
    let info = reader.next_frame(&mut pixels).map_err(|error| error.to_string())?;
    let grey_to_rgb = |pixel: &[u8]| [pixel[0]; 3];
    let first_three = |pixel: &[u8]| [pixel[0], pixel[1], pixel[2]];
    let pixels: Vec<u8> = match info.color_type.samples() {
        1 => pixels.into_iter().flat_map(|grey| [grey; 3]).collect(),
        2 => pixels.chunks_exact(2).flat_map(grey_to_rgb).collect(),
        3 => pixels,
        _ => pixels.chunks_exact(4).flat_map(first_three).collect(),
    };
    Frames::new(FrameShape::rgb(height, width), pixels).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::jpeg::tests::jpeg;
    use super::*;
    use crate::VirtualClock;

    fn frame(value: u8) -> Frames {
        Frames::new(FrameShape::rgb(1, 1), vec![value; 3]).unwrap()
    }

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Frames at 20, 100 and 200 ms after a start that is at one second.
    fn camera(at_end: AtEnd) -> (ReplayCamera, Arc<VirtualClock>) {
        let clock = Arc::new(VirtualClock::new());
        clock.advance(Duration::from_secs(1));
        let frames = [(20, 1), (100, 2), (200, 3)].map(|(time, value)| (millis(time), frame(value)));
        (ReplayCamera::new("wrist_1", frames.to_vec(), at_end, clock.clone()).unwrap(), clock)
    }

    fn seen(camera: &mut ReplayCamera) -> Option<(u8, u64, u128)> {
        let frame = camera.newest()?;
        Some((frame.image.pixels[0], frame.number, frame.time.elapsed().as_millis()))
    }

    #[test]
    fn frames_come_at_their_times_and_the_last_grows_old() {
        let (mut camera, clock) = camera(AtEnd::Stop);
        assert_eq!(seen(&mut camera), None);
        clock.advance(millis(99));
        assert_eq!(seen(&mut camera), Some((1, 1, 1020)));
        clock.advance(millis(1));
        assert_eq!((seen(&mut camera), camera.trouble()), (Some((2, 2, 1100)), None));
        clock.advance(millis(900));
        assert_eq!(seen(&mut camera), Some((3, 3, 1200)));
        assert!(camera.trouble().unwrap().to_string().contains("over"));
    }

    /// Frames are 90 ms apart on average, so the first comes again 90 ms after the last, at 290.
    #[test]
    fn a_recording_can_begin_anew() {
        let (mut camera, clock) = camera(AtEnd::Repeat);
        clock.advance(millis(289));
        assert_eq!(seen(&mut camera), Some((3, 3, 1200)));
        clock.advance(millis(1));
        assert_eq!(seen(&mut camera), Some((1, 4, 1290)));
        clock.advance(millis(2700));
        assert_eq!((seen(&mut camera), camera.trouble()), (Some((1, 34, 3990)), None));
    }

    #[test]
    fn recordings_that_are_none_are_refused() {
        let open = |frames| {
            let clock = Arc::new(VirtualClock::new());
            ReplayCamera::new("top", frames, AtEnd::Stop, clock).err().unwrap().to_string()
        };
        assert!(open(vec![]).contains("empty"));
        assert!(
            open(vec![(millis(5), frame(1)), (millis(5), frame(2))])
                .contains("frame 1 of the recording is not after")
        );
        let large = Frames::new(FrameShape::rgb(1, 2), vec![0; 6]).unwrap();
        assert!(open(vec![(millis(5), frame(1)), (millis(6), large)]).contains("frame 1"));
    }

    #[test]
    fn a_folder_of_files_is_shown_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let clock: Arc<VirtualClock> = Arc::default();
        let open = |hz| {
            ReplayCamera::open("wrist_1", folder.path(), hz, AtEnd::Stop, FrameFit::square(2), clock.clone())
        };
        assert!(open(10.0).err().unwrap().to_string().contains("no .jpg"));
        fs::write(folder.path().join("frame_2.jpg"), jpeg(16, 8, [0, 0, 250])).unwrap();
        let mut png = png::Encoder::new(fs::File::create(folder.path().join("frame_1.PNG")).unwrap(), 2, 2);
        png.set_color(png::ColorType::GrayscaleAlpha);
        png.write_header().unwrap().write_image_data(&[9, 255, 9, 255, 9, 255, 9, 0]).unwrap();
        fs::write(folder.path().join("notes.txt"), "not a frame").unwrap();
        let mut camera = open(10.0).unwrap();
        assert_eq!(camera.newest().unwrap().image.pixels, [9; 12]);
        clock.advance(millis(100));
        assert!(camera.newest().unwrap().image.pixels[2] > 240);
        assert!(open(0.0).err().unwrap().to_string().contains("0 frames a second"));
        fs::write(folder.path().join("frame_3.jpg"), "no image").unwrap();
        let error = open(10.0).err().unwrap().to_string();
        assert!(error.contains("frame_3.jpg: it is no JPEG"), "{error}");
    }
}
