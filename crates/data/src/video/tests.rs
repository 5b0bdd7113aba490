//! Frames beside those of PyAV and of the lerobot package, and files that are damaged.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lerobot")
}

const DATASETS: [&str; 3] = ["v3_video_av1", "v3_video_h264", "v21_video_av1"];

/// Every video of the fixtures, with the CRC of the planes of each frame.
fn videos() -> BTreeMap<PathBuf, Vec<u64>> {
    let of = |name: &str| -> Vec<(PathBuf, Vec<u64>)> {
        let text = std::fs::read(folder().join(format!("expected_{name}.json"))).unwrap();
        let json: Value = serde_json::from_slice(&text).unwrap();
        let crcs = |list: &Value| list.as_array().unwrap().iter().map(|crc| crc.as_u64().unwrap()).collect();
        let root = folder().join(name);
        json["yuv"].as_object().unwrap().iter().map(|(file, list)| (root.join(file), crcs(list))).collect()
    };
    DATASETS.into_iter().flat_map(of).collect()
}

/// The CRC of a frame's planes without what pads them.
fn crc(planes: &Yuv) -> u64 {
    let mut hash = crc32fast::Hasher::new();
    let (width, height) = (planes.width, planes.height);
    let halves = (width.div_ceil(2), height.div_ceil(2));
    let [u, v] = planes.chroma.as_ref().unwrap();
    for ((plane, stride), (width, height)) in [(&planes.y, (width, height)), (u, halves), (v, halves)] {
        (0..height).for_each(|row| hash.update(&plane[row * stride..][..width]));
    }
    u64::from(hash.finalize())
}

#[test]
fn planes_are_those_of_pyav() {
    let videos = videos();
    assert_eq!(videos.len(), 10);
    for (path, expected) in videos {
        let video = Video::open(&path).unwrap();
        let mut found = vec![0; video.len()];
        video.decode_planes(0..video.len(), &mut |at, planes| found[at] = crc(planes)).unwrap();
        assert_eq!(found, expected, "{}", path.display());
        for at in (0..video.len()).rev() {
            video.decode_planes(at..at + 1, &mut |at, planes| assert_eq!(crc(planes), expected[at])).unwrap();
        }
    }
}

/// What PyAV makes of one of the videos with keyframes far apart: the CRC of each frame's planes or RGB.
fn expected_gop(codec: &str, what: &str) -> Vec<u64> {
    let text = std::fs::read(folder().join("expected_gop.json")).unwrap();
    let json: Value = serde_json::from_slice(&text).unwrap();
    json[codec][what].as_array().unwrap().iter().map(|crc| crc.as_u64().unwrap()).collect()
}

#[test]
fn keyframes_may_be_far_apart_and_frames_out_of_order() {
    for codec in ["av1", "h264"] {
        let video = Video::open(&folder().join(format!("gop_{codec}.mp4"))).unwrap();
        let expected = expected_gop(codec, "yuv");
        let keys = video.track.samples.iter().filter(|sample| sample.is_key).count();
        assert_eq!((video.len(), expected.len(), keys), (40, 40, 2));
        for frames in [0..40, 0..1, 23..25, 30..40, 39..40, 11..12] {
            let mut seen = 0;
            let mut check = |at: usize, planes: &Yuv| {
                assert_eq!(crc(planes), expected[at], "{codec} {at} of {frames:?}");
                seen += 1;
            };
            video.decode_planes(frames.clone(), &mut check).unwrap();
            assert_eq!(seen, frames.len());
        }
    }
}

#[test]
fn other_codecs_are_left_to_ffmpeg() {
    let video = Video::open(&folder().join("gop_hevc.mp4")).unwrap();
    let each = video.shape().bytes();
    let mut rgb = vec![0; 10 * each];
    let decoded = video.decode(25..35, &mut rgb);
    if !ffmpeg::is_installed() {
        assert!(decoded.unwrap_err().to_string().contains("no decoder for hev1"));
        return;
    }
    decoded.unwrap();
    let found: Vec<u64> = rgb.chunks_exact(each).map(|frame| u64::from(crc32fast::hash(frame))).collect();
    assert_eq!(found, expected_gop("hevc", "rgb")[25..35]);
}

#[test]
fn times_find_frames() {
    let video =
        Video::open(&folder().join("v3_video_av1/videos/observation.images.front/chunk-000/file-000.mp4"))
            .unwrap();
    assert_eq!((video.len(), video.decoder().unwrap()), (22, VideoDecoder::Rav1d));
    let times =
        [(0.0, Some(0)), (0.9, Some(9)), (1.5, Some(15)), (2.1001, Some(21)), (2.2, None), (-1.0, None)];
    for (secs, frame) in times {
        assert_eq!(video.nearest(secs), frame, "{secs}");
    }
}

/// Bytes as a video: opened, and every frame decoded.
fn decode_all(bytes: &[u8]) -> Result<(), VideoError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let video = Video::open(file.path())?;
    let bytes = video.shape().bytes().saturating_mul(video.len());
    // What a caller allows for an episode.
    if bytes > 64 << 20 {
        return Err(VideoError::NoVideo);
    }
    video.decode(0..video.len(), &mut vec![0; bytes])
}

#[test]
fn cut_files_are_errors() {
    for (path, _) in videos() {
        let whole = std::fs::read(&path).unwrap();
        decode_all(&whole).unwrap();
        for cut in (0..whole.len()).step_by(whole.len() / 40) {
            assert!(decode_all(&whole[..cut]).is_err(), "{} cut at {cut}", path.display());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn flipped_bits_never_panic(which in 0usize..10, flips in prop::collection::vec((any::<prop::sample::Index>(), 0u8..8), 1..6)) {
        let (path, _) = videos().into_iter().nth(which).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        for (at, bit) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        let _ = decode_all(&bytes);
    }
}
