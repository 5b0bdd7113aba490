//! Videos, read back: what was shown is there, for as long as it was shown; and failures leave nothing behind.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

use std::fs;
use std::path::Path;

use plaudit_core::{End, Facts, FrameShape, Frames, Obs};
use plaudit_view::video::{
    Picture, Seen, Video, VideoError, VideoFile, VideoFormat, VideoRecorder, VideoSettings,
};
use proptest::prelude::*;

/// A decoded video: pixels of each frame, and its time in milliseconds.
struct Decoded {
    size: (usize, usize),
    frames: Vec<(Vec<u8>, u64)>,
}

impl Decoded {
    fn at(&self, frame: usize, x: usize, y: usize) -> [u8; 3] {
        let at = (y * self.size.0 + x) * 3;
        self.frames[frame].0[at..at + 3].try_into().unwrap()
    }

    fn millis(&self) -> u64 {
        self.frames.iter().map(|(_, millis)| millis).sum()
    }
}

fn decode(path: &Path) -> Decoded {
    match VideoFormat::of(path).unwrap() {
        VideoFormat::Gif => decode_gif(path),
        VideoFormat::Apng => decode_png(path),
        VideoFormat::Mp4 => panic!("no decoder of H.264 here; tests/check_video.py has one"),
    }
}

/// Lays a changed rectangle over the picture before.
fn overlay(
    canvas: &mut [u8],
    width: usize,
    (left, top, across): (usize, usize, usize),
    part: impl Iterator<Item = Option<[u8; 3]>>,
) {
    for (n, colour) in part.enumerate() {
        let at = ((top + n / across) * width + left + n % across) * 3;
        if let Some(colour) = colour {
            canvas[at..at + 3].copy_from_slice(&colour);
        }
    }
}

fn decode_gif(path: &Path) -> Decoded {
    let mut options = gif::DecodeOptions::new();
    options.set_color_output(gif::ColorOutput::RGBA);
    let mut decoder = options.read_info(fs::File::open(path).unwrap()).unwrap();
    let size = (usize::from(decoder.width()), usize::from(decoder.height()));
    let mut canvas = vec![0; size.0 * size.1 * 3];
    let mut frames = Vec::new();
    while let Some(frame) = decoder.read_next_frame().unwrap() {
        let area = [frame.left, frame.top, frame.width].map(usize::from);
        let part = frame.buffer.as_chunks::<4>().0.iter();
        let part = part.map(|&[red, green, blue, there]| (there == 255).then_some([red, green, blue]));
        overlay(&mut canvas, size.0, area.into(), part);
        frames.push((canvas.clone(), u64::from(frame.delay) * 10));
    }
    Decoded { size, frames }
}

fn decode_png(path: &Path) -> Decoded {
    let file = std::io::BufReader::new(fs::File::open(path).unwrap());
    let mut reader = png::Decoder::new(file).read_info().unwrap();
    let (width, height) = reader.info().size();
    let size = (width as usize, height as usize);
    let count = reader.info().animation_control().unwrap().num_frames;
    let mut canvas = vec![0; size.0 * size.1 * 3];
    let mut frames = Vec::new();
    for _ in 0..count {
        let mut buffer = vec![0; reader.output_buffer_size().unwrap()];
        let read = reader.next_frame(&mut buffer).unwrap();
        let control = *reader.info().frame_control().unwrap();
        let area = (control.x_offset as usize, control.y_offset as usize, control.width as usize);
        let part = buffer[..read.buffer_size()].as_chunks::<4>().0.iter();
        let part = part.map(|&[red, green, blue, there]| (there == 255).then_some([red, green, blue]));
        overlay(&mut canvas, size.0, area, part);
        let millis = u64::from(control.delay_num) * 1000 / u64::from(control.delay_den);
        frames.push((canvas.clone(), millis));
    }
    Decoded { size, frames }
}

fn write(path: &Path, fps: f64, pictures: &[Picture]) -> VideoFile {
    let mut video = Video::create(path, fps).unwrap();
    pictures.iter().for_each(|picture| video.push(picture).unwrap());
    video.finish().unwrap()
}

/// A square that moves over a floor of a few colours.
fn moving(width: usize, height: usize, frames: usize) -> Vec<Picture> {
    let floor = |x: usize, y: usize| [(x % 8 * 20) as u8, (y % 5 * 30) as u8, 90];
    let pixels = (0..height).flat_map(|y| (0..width).flat_map(move |x| floor(x, y))).collect();
    let floor = Picture::new(width, height, pixels).unwrap();
    let at = |t: usize| {
        let mut picture = floor.clone();
        picture.fill((t * 2 % width, t % height), (3, 3), [250, (t * 9 % 200) as u8, 10]);
        picture
    };
    (0..frames).map(at).collect()
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().next().is_none()
}

#[test]
fn what_was_shown_is_there_for_as_long() {
    let dir = tempfile::tempdir().unwrap();
    let pictures = moving(40, 24, 30);
    for name in ["a.gif", "a.png", "deep/er/A.GIF"] {
        let path = dir.path().join(name);
        let written = write(&path, 30.0, &pictures);
        assert_eq!((written.frames, written.bytes), (30, fs::metadata(&path).unwrap().len()));
        let decoded = decode(&path);
        assert_eq!((decoded.size, decoded.frames.len(), decoded.millis()), ((40, 24), 30, 1000), "{name}");
        for (picture, (pixels, _)) in pictures.iter().zip(&decoded.frames) {
            assert_eq!(picture.pixels(), pixels, "{name}: so few colours are exact");
        }
    }
}

#[test]
fn a_picture_can_stay() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a.gif", "a.png"] {
        let mut video = Video::create(&dir.path().join(name), 20.0).unwrap();
        let picture = Picture::filled(4, 4, [7; 3]);
        video.push(&picture).unwrap();
        video.push_for(&picture, 1.5).unwrap();
        assert_eq!(video.finish().unwrap().secs, 1.55);
        let times: Vec<u64> = decode(&dir.path().join(name)).frames.iter().map(|(_, time)| *time).collect();
        assert_eq!(times, [50, 1500], "{name}");
    }
}

#[test]
fn what_stands_still_costs_next_to_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let still = vec![moving(64, 64, 1).remove(0); 100];
    for (name, most) in [("a.gif", 30), ("a.png", 110), ("a.mp4", 20)] {
        let one = write(&dir.path().join(name), 20.0, &still[..1]).bytes;
        let hundred = write(&dir.path().join(name), 20.0, &still).bytes;
        assert!((hundred - one) / 99 <= most, "{name}: {} bytes a frame", (hundred - one) / 99);
    }
}

#[test]
fn new_colours_late_in_a_gif_bring_their_own_palette() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.gif");
    let mut video = Video::create(&path, 20.0).unwrap();
    let side = 1200; // four such pictures fill the look-ahead
    for shade in [0, 1, 2, 4, 4] {
        video.push(&Picture::filled(side, side, [shade; 3])).unwrap();
    }
    let mut late = Picture::filled(side, side, [4; 3]);
    late.fill((5, 6), (50, 50), [255, 0, 0]);
    video.push(&late).unwrap();
    video.finish().unwrap();
    let decoded = decode(&path);
    assert_eq!(
        (decoded.at(5, 5, 6), decoded.at(5, 0, 0), decoded.at(4, 5, 6)),
        ([255, 0, 0], [4; 3], [4; 3])
    );
}

#[test]
fn h264_is_what_a_decoder_was_shown_to_accept() {
    // tests/check_video.py decodes this file with ffmpeg; run it again whenever the file changes.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("moving.mp4");
    write(&path, 30.0, &moving(50, 35, 30));
    let expected = include_bytes!("fixtures/moving.mp4");
    assert!(
        fs::read(&path).unwrap() == expected,
        "the encoder writes other bytes than those that were checked"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_size_and_number_of_frames(
        width in 1_usize..64,
        height in 1_usize..64,
        frames in 1_usize..12,
        seed in any::<u8>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let noise = |t: usize| {
            let value = |n: usize| (n * n % 251 + n * 7 + t * 31) as u8 ^ seed;
            Picture::new(width, height, (0..width * height * 3).map(value).collect()).unwrap()
        };
        let pictures: Vec<_> = (0..frames).map(noise).collect();
        for name in ["a.gif", "a.png", "a.mp4"] {
            let path = dir.path().join(name);
            let written = write(&path, 25.0, &pictures);
            prop_assert_eq!(written.frames, frames);
            if name == "a.mp4" {
                continue;
            }
            let decoded = decode(&path);
            prop_assert_eq!((decoded.size, decoded.frames.len()), ((width, height), frames));
            prop_assert_eq!(decoded.millis(), frames as u64 * 40);
            if name == "a.png" {
                let exact = pictures.iter().zip(&decoded.frames).all(|(shown, (read, _))| shown.pixels() == read);
                prop_assert!(exact);
            }
        }
    }
}

#[test]
fn errors_name_the_file_and_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.gif");
    let error = Video::create(&dir.path().join("a.avi"), 20.0).unwrap_err();
    assert!(error.to_string().contains("a.avi does not end in .gif, .png or .mp4"), "{error}");
    for fps in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(Video::create(&path, fps).unwrap_err(), VideoError::Fps { .. }), "{fps}");
    }
    let empty = Video::create(&path, 20.0).unwrap().finish().unwrap_err();
    assert!(matches!(&empty, VideoError::Empty { path: named } if *named == path), "{empty}");

    let mut video = Video::create(&path, 20.0).unwrap();
    video.push(&Picture::filled(4, 4, [0; 3])).unwrap();
    let error = video.push(&Picture::filled(5, 4, [0; 3])).unwrap_err();
    assert!(error.to_string().contains("is 4x4, and cannot take a frame of 5x4"), "{error}");
    assert_eq!(error.path(), Some(path.as_path()));
    drop(video);
    let mut video = Video::create(&dir.path().join("a.mp4"), 20.0).unwrap();
    assert!(matches!(video.push(&Picture::filled(5000, 1, [0; 3])), Err(VideoError::TooLarge { .. })));
    drop(video);
    assert!(is_empty(dir.path()), "a video that was not finished leaves nothing");

    fs::write(dir.path().join("file"), b"").unwrap();
    let below_a_file = dir.path().join("file/a.gif");
    let error = Video::create(&below_a_file, 20.0).unwrap_err();
    assert!(matches!(&error, VideoError::Create { path, .. } if *path == below_a_file), "{error}");
}

/// Observations whose images are all of one grey per row.
fn seen(greys: &[u8]) -> Obs {
    let pixels = greys.iter().flat_map(|grey| vec![*grey; 16 * 16 * 3]).collect();
    let frames = Frames::new(FrameShape::rgb(16, 16), pixels).unwrap();
    let obs = Obs::from_state(greys.len(), vec![0.0; greys.len()]).unwrap();
    obs.with_camera("main", frames).unwrap()
}

fn settings(directory: &Path, queue: Option<usize>) -> VideoSettings {
    let format = VideoFormat::Apng;
    VideoSettings { format, envs: 2, info: false, queue, ..VideoSettings::new(directory, 7, 10.0) }
}

/// Shows one step of three rows.
fn show(recorder: &mut VideoRecorder, greys: &[u8], end: &[End], success: &[bool], last: &[(usize, Obs)]) {
    let (obs, facts) = (seen(greys), Facts::new());
    recorder.step(Seen { obs: &obs, last, reward: &[0.0; 3], end, success, facts: &facts }).unwrap();
}

#[test]
fn an_end_is_framed_and_held_before_the_reset() {
    const GREEN: [u8; 3] = [40, 200, 80];
    const RED: [u8; 3] = [230, 60, 50];
    let dir = tempfile::tempdir().unwrap();
    for queue in [None, Some(1)] {
        let mut recorder = VideoRecorder::new(settings(dir.path(), queue)).unwrap();
        recorder.start(&seen(&[10, 20, 30])).unwrap();
        show(&mut recorder, &[11, 21, 31], &[End::No; 3], &[false; 3], &[]);
        let ends = [End::Terminated, End::Truncated, End::No];
        let last = [(0, seen(&[99])), (1, seen(&[88]))];
        show(&mut recorder, &[10, 20, 32], &ends, &[true, false, false], &last);
        let first = recorder.flush().unwrap().unwrap();
        assert_eq!(recorder.flush().unwrap(), None, "nothing was shown since");
        show(&mut recorder, &[12, 22, 33], &[End::No; 3], &[false; 3], &[]);
        let videos = recorder.close().unwrap();
        assert_eq!(videos[0].path, first);

        // Two rows of three are shown, side by side.
        let decoded = decode(&first);
        assert_eq!((decoded.size, decoded.frames.len(), decoded.millis()), ((32, 16), 3, 1200));
        assert_eq!(
            (decoded.at(0, 8, 8), decoded.at(1, 8, 8), decoded.at(2, 8, 8)),
            ([10; 3], [11; 3], [99; 3])
        );
        assert_eq!((decoded.at(2, 0, 0), decoded.at(2, 31, 0), decoded.at(2, 24, 8)), (GREEN, RED, [88; 3]));
        // The next video starts with the reset, unframed.
        let decoded = decode(&videos[1].path);
        assert_eq!(
            (decoded.at(0, 8, 8), decoded.at(0, 0, 0), decoded.at(1, 24, 8)),
            ([10; 3], [10; 3], [22; 3])
        );
    }
    let mut names: Vec<_> =
        fs::read_dir(dir.path().join("seed_7")).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(
        names,
        ["0.png", "1.png", "2.png", "3.png"],
        "a second recorder goes on where the first stopped"
    );
}

#[test]
fn a_row_that_ends_alone_keeps_its_frame_while_the_others_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = VideoRecorder::new(settings(dir.path(), None)).unwrap();
    recorder.start(&seen(&[0; 3])).unwrap();
    // It succeeded, and lost it again before the end.
    show(&mut recorder, &[1; 3], &[End::No; 3], &[true, false, false], &[]);
    show(&mut recorder, &[2; 3], &[End::Truncated, End::No, End::No], &[false; 3], &[(0, seen(&[77]))]);
    for grey in 3..20 {
        show(&mut recorder, &[grey; 3], &[End::No; 3], &[false; 3], &[]);
    }
    let videos = recorder.close().unwrap();
    let decoded = decode(&videos[0].path);
    assert!(decoded.frames.iter().all(|(_, millis)| *millis == 100), "nothing waits");
    let framed: Vec<usize> =
        (0..decoded.frames.len()).filter(|n| decoded.at(*n, 0, 0) == [245, 170, 30]).collect();
    assert_eq!(framed, (2..13).collect::<Vec<_>>(), "the end, the reset, and a second less one frame");
    assert_eq!((decoded.at(2, 8, 8), decoded.at(3, 8, 8)), ([77; 3], [2; 3]));
}

#[test]
fn a_recorder_tells_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let named = VideoSettings { cameras: vec!["wrist".into()], ..settings(dir.path(), None) };
    let error = VideoRecorder::new(named).unwrap().start(&seen(&[0])).unwrap_err();
    assert_eq!(error.to_string(), "there is no camera `wrist` to show; there are main");
    let blind = Obs::from_state(1, vec![0.0]).unwrap();
    let error = VideoRecorder::new(settings(dir.path(), None)).unwrap().start(&blind).unwrap_err();
    assert!(error.to_string().contains("nothing was rendered"), "{error}");

    let mut recorder = VideoRecorder::new(settings(dir.path(), None)).unwrap();
    let (obs, facts) = (seen(&[0; 3]), Facts::new());
    let short = Seen {
        obs: &obs,
        last: &[],
        reward: &[0.0; 2],
        end: &[End::No; 3],
        success: &[false; 3],
        facts: &facts,
    };
    assert_eq!(recorder.step(short).unwrap_err().to_string(), "2 rewards for 3 environments");

    // A thread reports as well, when the work meets it again.
    fs::write(dir.path().join("file"), b"").unwrap();
    let mut recorder = VideoRecorder::new(settings(&dir.path().join("file"), Some(4))).unwrap();
    show(&mut recorder, &[1; 3], &[End::No; 3], &[false; 3], &[]);
    let error = recorder.close().unwrap_err();
    assert!(matches!(error, VideoError::Create { .. }), "{error}");
}

#[test]
fn a_full_queue_is_counted_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = VideoRecorder::new(settings(dir.path(), Some(1))).unwrap();
    for n in 0..200_u8 {
        show(&mut recorder, &[n; 3], &[End::No; 3], &[false; 3], &[]);
    }
    recorder.flush().unwrap();
    let stalls = recorder.stalls();
    assert_eq!(recorder.close().unwrap()[0].frames, 200);
    assert!(stalls.count > 0 && !stalls.waited.is_zero(), "{stalls:?}");
}
