//! Videos, read back: what was shown is there, for as long as it was shown; and failures leave nothing behind.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

use std::fs;
use std::path::Path;

use plaudit_core::{End, Facts, FrameShape, Frames, Obs};
use plaudit_view::video::{
    Canvas, StepView, Video, VideoError, VideoFile, VideoFormat, VideoRecorder, VideoSettings,
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
        VideoFormat::Apng => decode_png(path),
        VideoFormat::Mp4 => panic!("no decoder of H.264 here; tests/check_video.py has one"),
    }
}

/// Lays a changed rectangle over the image before.
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

fn write(path: &Path, fps: f64, images: &[Canvas]) -> VideoFile {
    let mut video = Video::create(path, fps).unwrap();
    images.iter().for_each(|image| video.push(image).unwrap());
    video.finish().unwrap()
}

/// A square that moves over a floor of a few colours.
fn moving(width: usize, height: usize, frames: usize) -> Vec<Canvas> {
    let floor = |x: usize, y: usize| [(x % 8 * 20) as u8, (y % 5 * 30) as u8, 90];
    let pixels = (0..height).flat_map(|y| (0..width).flat_map(move |x| floor(x, y))).collect();
    let floor = Canvas::new(width, height, pixels).unwrap();
    let at = |t: usize| {
        let mut image = floor.clone();
        image.fill((t * 2 % width, t % height), (3, 3), [250, (t * 9 % 200) as u8, 10]);
        image
    };
    (0..frames).map(at).collect()
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().next().is_none()
}

#[test]
fn what_was_shown_is_there_for_as_long() {
    let dir = tempfile::tempdir().unwrap();
    let images = moving(40, 24, 30);
    for name in ["a.png", "deep/er/A.PNG"] {
        let path = dir.path().join(name);
        let written = write(&path, 30.0, &images);
        assert_eq!((written.frames, written.bytes), (30, fs::metadata(&path).unwrap().len()));
        let decoded = decode(&path);
        assert_eq!((decoded.size, decoded.frames.len(), decoded.millis()), ((40, 24), 30, 1000), "{name}");
        for (image, (pixels, _)) in images.iter().zip(&decoded.frames) {
            assert_eq!(image.pixels(), pixels, "{name}");
        }
    }
}

#[test]
fn an_image_can_stay() {
    let dir = tempfile::tempdir().unwrap();
    let mut video = Video::create(&dir.path().join("a.png"), 20.0).unwrap();
    let image = Canvas::filled(4, 4, [7; 3]);
    video.push(&image).unwrap();
    video.push_for(&image, 1.5).unwrap();
    assert_eq!(video.finish().unwrap().secs, 1.55);
    let times: Vec<u64> = decode(&dir.path().join("a.png")).frames.iter().map(|(_, time)| *time).collect();
    assert_eq!(times, [50, 1500]);
}

#[test]
fn what_stands_still_costs_next_to_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let still = vec![moving(64, 64, 1).remove(0); 100];
    for (name, most) in [("a.png", 110), ("a.mp4", 20)] {
        let one = write(&dir.path().join(name), 20.0, &still[..1]).bytes;
        let hundred = write(&dir.path().join(name), 20.0, &still).bytes;
        assert!((hundred - one) / 99 <= most, "{name}: {} bytes a frame", (hundred - one) / 99);
    }
}

#[test]
fn h264_is_what_a_decoder_was_shown_to_accept() {
    // tests/check_video.py decodes this file with ffmpeg; run it again whenever the file changes. Other processors may
    // round the encoder's choices otherwise.
    if !cfg!(target_arch = "x86_64") {
        return;
    }
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
            Canvas::new(width, height, (0..width * height * 3).map(value).collect()).unwrap()
        };
        let images: Vec<_> = (0..frames).map(noise).collect();
        for name in ["a.png", "a.mp4"] {
            let path = dir.path().join(name);
            let written = write(&path, 25.0, &images);
            prop_assert_eq!(written.frames, frames);
            if name == "a.mp4" {
                continue;
            }
            let decoded = decode(&path);
            prop_assert_eq!((decoded.size, decoded.frames.len()), ((width, height), frames));
            prop_assert_eq!(decoded.millis(), frames as u64 * 40);
            if name == "a.png" {
                let exact = images.iter().zip(&decoded.frames).all(|(shown, (read, _))| shown.pixels() == read);
                prop_assert!(exact);
            }
        }
    }
}

#[test]
fn errors_name_the_file_and_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.png");
    let error = Video::create(&dir.path().join("a.avi"), 20.0).unwrap_err();
    assert!(error.to_string().contains("a.avi does not end in .png or .mp4"), "{error}");
    for fps in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(Video::create(&path, fps).unwrap_err(), VideoError::Fps { .. }), "{fps}");
    }
    let empty = Video::create(&path, 20.0).unwrap().finish().unwrap_err();
    assert!(matches!(&empty, VideoError::Empty { path: named } if *named == path), "{empty}");

    let mut video = Video::create(&path, 20.0).unwrap();
    video.push(&Canvas::filled(4, 4, [0; 3])).unwrap();
    let error = video.push(&Canvas::filled(5, 4, [0; 3])).unwrap_err();
    assert!(error.to_string().contains("is 4x4, and cannot take a frame of 5x4"), "{error}");
    assert_eq!(error.path(), Some(path.as_path()));
    drop(video);
    let mut video = Video::create(&dir.path().join("a.mp4"), 20.0).unwrap();
    assert!(matches!(video.push(&Canvas::filled(5000, 1, [0; 3])), Err(VideoError::TooLarge { .. })));
    drop(video);
    assert!(is_empty(dir.path()), "a video that was not finished leaves nothing");

    fs::write(dir.path().join("file"), b"").unwrap();
    let below_a_file = dir.path().join("file/a.png");
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
    recorder.step(StepView { obs: &obs, last, reward: &[0.0; 3], end, success, facts: &facts }).unwrap();
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

/// Each frame of a video as words: the grey of both rows, the colour of the border if there is one, and the frames it lasts.
fn frames(path: &Path) -> Vec<String> {
    let decoded = decode(path);
    let row = |n: usize, left: usize| {
        let (grey, corner) = (decoded.at(n, left + 8, 8), decoded.at(n, left, 0));
        let border = match corner {
            [40, 200, 80] => "green",
            [245, 170, 30] => "amber",
            [230, 60, 50] => "red",
            _ if corner == grey => "",
            _ => panic!("a border of {corner:?}"),
        };
        format!("{}{border}", grey[0])
    };
    let frame = |n: usize| match decoded.frames[n].1 / 100 {
        1 => format!("{} {}", row(n, 0), row(n, 16)),
        long => format!("{} {} for {long}", row(n, 0), row(n, 16)),
    };
    (0..decoded.frames.len()).map(frame).collect()
}

/// A step of two rows: what each shows, and the last image of its episode with its success where one ended.
type TwoRows = [(u8, Option<(u8, bool)>); 2];

fn play(hold_secs: f64, steps: &[TwoRows]) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let hold = VideoSettings { hold_secs, ..settings(dir.path(), None) };
    let mut recorder = VideoRecorder::new(hold).unwrap();
    recorder.start(&seen(&[10, 110])).unwrap();
    for rows in steps {
        let end = rows.map(|(_, last)| if last.is_some() { End::Truncated } else { End::No });
        let success = rows.map(|(_, last)| last.is_some_and(|(_, success)| success));
        let last: Vec<_> =
            (0..2).filter_map(|row| rows[row].1.map(|(grey, _)| (row, seen(&[grey])))).collect();
        let (obs, facts) = (seen(&rows.map(|(grey, _)| grey)), Facts::new());
        let (last, end, success) = (&last, &end, &success);
        recorder.step(StepView { obs: &obs, last, reward: &[0.0; 2], end, success, facts: &facts }).unwrap();
    }
    frames(&recorder.close().unwrap()[0].path)
}

#[test]
fn every_observation_is_shown_once_and_in_order_across_resets() {
    // Row 0 ends twice, alone; row 1 once.
    let steps: [TwoRows; 7] = [
        [(11, None), (111, None)],
        [(20, Some((12, true))), (112, None)],
        [(21, None), (113, None)],
        [(30, Some((22, false))), (114, None)],
        [(31, None), (120, Some((115, false)))],
        [(32, None), (121, None)],
        [(33, None), (122, None)],
    ];
    let expected = [
        "10 110",
        "11 111",
        "12green 112",
        "20 113", // the border ended with its episode, and row 1 did not wait
        "21 114",
        "22red 115red",
        "30 120",
        "31 121",
        "32 122",
        "33 122", // one reset more than row 1
    ];
    assert_eq!(play(0.0, &steps), expected);

    // An end of 0.3 seconds: the row that ended stays, and follows behind; together they make one long frame.
    let expected = [
        "10 110",
        "11 111",
        "12green 112",
        "12green 113",
        "12green 114",
        "20 115red",
        "21 115red",
        "22red 115red",
        "30 120",
        "31 121",
        "32 122",
        "33 122",
    ];
    assert_eq!(play(0.3, &steps), expected);
    let together: [TwoRows; 2] =
        [[(20, Some((11, true))), (120, Some((111, true)))], [(21, None), (121, None)]];
    assert_eq!(play(0.3, &together), ["10 110", "11green 111green for 3", "20 120", "21 121"]);
}

#[test]
fn a_row_in_its_first_episode_is_never_behind() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = VideoRecorder::new(settings(dir.path(), None)).unwrap();
    recorder.start(&seen(&[0, 100, 0])).unwrap();
    let mut shown_at = Vec::new();
    for step in 1..40_u8 {
        // Row 0 ends at every third step; row 1 goes on.
        let ended = step % 3 == 0;
        let ends = [if ended { End::Truncated } else { End::No }, End::No, End::No];
        let last = if ended { vec![(0, seen(&[step]))] } else { Vec::new() };
        show(&mut recorder, &[step, 100 + step, 0], &ends, &[false; 3], &last);
        shown_at.push((recorder.newest_secs().0, 100 + step));
    }
    let decoded = decode(&recorder.close().unwrap()[0].path);
    for (secs, grey) in shown_at {
        let frame = (secs * 10.0).round() as usize; // nothing stands still everywhere, so that every frame takes 0.1 s
        assert_eq!(decoded.at(frame, 24, 8), [grey; 3], "at {secs} s");
    }
}

#[test]
fn an_episode_that_lost_its_success_has_an_amber_border() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = VideoRecorder::new(settings(dir.path(), None)).unwrap();
    recorder.start(&seen(&[0; 3])).unwrap();
    show(&mut recorder, &[1; 3], &[End::No; 3], &[true, false, false], &[]);
    show(&mut recorder, &[2; 3], &[End::Truncated, End::No, End::No], &[false; 3], &[(0, seen(&[77]))]);
    show(&mut recorder, &[3; 3], &[End::No; 3], &[false; 3], &[]);
    let video = recorder.close().unwrap().remove(0);
    let shown = frames(&video.path);
    assert_eq!(shown[..3], ["0 0", "1 1", "77amber 2"]);
    assert_eq!(shown.last().unwrap(), "3 3", "the next episode has no border");
}

#[test]
fn a_border_does_not_reach_into_the_next_video() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = VideoRecorder::new(settings(dir.path(), None)).unwrap();
    recorder.start(&seen(&[10, 110, 0])).unwrap();
    let ends = [End::Terminated, End::No, End::No];
    show(&mut recorder, &[20, 111, 0], &ends, &[true, false, false], &[(0, seen(&[11]))]);
    recorder.flush().unwrap();
    show(&mut recorder, &[21, 112, 0], &[End::No; 3], &[false; 3], &[]);
    let videos = recorder.close().unwrap();
    assert_eq!(frames(&videos[0].path), ["10 110", "11green 111"]);
    assert_eq!(frames(&videos[1].path), ["20 112", "21 112"]);
}

#[test]
fn a_row_of_very_short_episodes_does_not_pile_up() {
    let steps = [[(11, Some((12, false))), (111, None)]; 500];
    let shown = play(0.0, &steps);
    let of_row_0 = |grey: &str| shown.iter().filter(|frame| frame.starts_with(grey)).count();
    assert_eq!(
        (of_row_0("12red"), of_row_0("11 ")),
        (500, 499),
        "nothing is lost; the last reset has nothing after it"
    );
    assert_eq!(shown.len(), 1000);
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
    let short = StepView {
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
