//! Videos of the policy before and after, side by side, with the curves under them.

use std::path::{Path, PathBuf};

use super::{Experiment, ReportError, Run, all, media};
use crate::page::{Chart, EmbeddedVideo, Ends, Html, Mark, PageVideo, Series, Size, Unit};
use crate::video::{TrackedEpisode, VideoTrack};

/// Larger videos are left out of the page.
const FILE_LIMIT: u64 = 2 << 20;

/// Shows the first and the last video of one run, and says which files it showed.
pub(super) fn show(body: &mut Html, experiments: &[Experiment]) -> Result<Vec<PathBuf>, ReportError> {
    let Some((run, tracks)) = with_tracks(experiments)? else { return Ok(Vec::new()) };
    let (first, last) = (&tracks[0], &tracks[tracks.len() - 1]);
    let chosen = if first.1.step == last.1.step { vec![last] } else { vec![first, last] };
    let span = span(&chosen);
    let mut videos = Vec::new();
    for (path, track) in &chosen {
        let bytes = std::fs::read(path).map_err(|source| ReportError::Read { path: path.clone(), source })?;
        let file = match path.extension().and_then(|extension| extension.to_str()) {
            Some("mp4") => EmbeddedVideo::Mp4(bytes),
            _ => EmbeddedVideo::Apng(bytes),
        };
        videos.push(PageVideo {
            title: title(run, track, chosen.len() > 1),
            outcome: outcome(track),
            file,
            secs: track.secs,
            curve: curve(track, span),
        });
    }
    body.heading(match chosen.len() {
        1 => "The policy at work",
        _ => "The policy before and after training",
    });
    if all(experiments).count() > 1 {
        body.paragraph(&format!("Videos of {}.", super::folder(run)));
    }
    body.videos(&videos);
    Ok(chosen.iter().map(|(path, _)| path.clone()).collect())
}

/// Videos with their tracks, in order of their steps.
type Tracks = Vec<(PathBuf, VideoTrack)>;

/// The first run with videos that have tracks.
fn with_tracks(experiments: &[Experiment]) -> Result<Option<(&Run, Tracks)>, ReportError> {
    for run in all(experiments) {
        let mut tracks: Tracks = Vec::new();
        for path in media::files(&run.dir.video(), &["json"])? {
            let track = VideoTrack::read(&path)?;
            let video = path.with_file_name(&track.video);
            // A run that was killed may have left a track whose video was not finished.
            if std::fs::metadata(&video).is_ok_and(|video| video.len() <= FILE_LIMIT) {
                tracks.push((video, track));
            }
        }
        tracks.sort_by_key(|(video, track)| (track.step, number(video)));
        if !tracks.is_empty() {
            return Ok(Some((run, tracks)));
        }
    }
    Ok(None)
}

/// The number that is a video's name.
fn number(video: &Path) -> u64 {
    video.file_stem().and_then(|stem| stem.to_str()?.parse().ok()).unwrap_or(u64::MAX)
}

fn title(run: &Run, track: &VideoTrack, is_one_of_two: bool) -> String {
    let unit = match run.summary.unit.as_str() {
        "" => "steps",
        unit => unit,
    };
    match track.step {
        0 if is_one_of_two => "Before training".into(),
        0 => format!("At {} 0", unit.trim_end_matches('s')),
        step => format!("After {step} {}", if step == 1 { unit.trim_end_matches('s') } else { unit }),
    }
}

fn outcome(track: &VideoTrack) -> String {
    let solved = track.episodes.iter().filter(|episode| episode.succeeded()).count();
    match track.episodes.len() {
        1 if solved == 1 => "success (ground truth)".into(),
        1 => "failure (ground truth)".into(),
        all => format!("{solved} of {all} episodes succeeded (ground truth)"),
    }
}

fn is_scored(track: &VideoTrack) -> bool {
    track.episodes.iter().any(|episode| !episode.score.is_empty())
}

fn values(episode: &TrackedEpisode, is_scored: bool) -> &[f32] {
    if is_scored { &episode.score } else { &episode.env_reward }
}

/// From the lowest to the highest value under any of the videos: they are drawn to one scale.
fn span(chosen: &[&(PathBuf, VideoTrack)]) -> (f64, f64) {
    if chosen.iter().all(|(_, track)| is_scored(track)) {
        return (0.0, 1.0);
    }
    let values = chosen.iter().flat_map(|(_, track)| {
        track.episodes.iter().flat_map(|episode| values(episode, is_scored(track)).iter().copied())
    });
    let (low, high) = values
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value.into()), high.max(value.into()))
        });
    if low < high {
        (low - 0.05 * (high - low), high + 0.05 * (high - low))
    } else {
        (low.min(0.0), high.max(1.0))
    }
}

/// The curves under a video: the model's scores if it scored the frames, else the environment's reward.
fn curve(track: &VideoTrack, span: (f64, f64)) -> Option<Chart> {
    let is_scored = is_scored(track);
    let line = |episode: &TrackedEpisode| {
        let points = episode.at_secs.iter().zip(values(episode, is_scored));
        let (look, word) = if episode.succeeded() { (0, "success") } else { (1, "failure") };
        let points = points.map(|(at, value)| (*at, f64::from(*value))).collect();
        Series { name: word.into(), look, points, ..Series::default() }
    };
    let mut series: Vec<Series> = track.episodes.iter().map(line).collect();
    if series.iter().all(|one| one.points.is_empty()) {
        return None;
    }
    // One name in the legend for all lines of a kind.
    let mut seen: Vec<String> = Vec::new();
    for one in &mut series {
        match seen.contains(&one.name) {
            true => one.name.clear(),
            false => seen.push(one.name.clone()),
        }
    }
    let threshold = track.threshold.filter(|_| is_scored);
    let levels = threshold.map(|at| Mark { at: at.into(), name: "threshold".into() });
    Some(Chart {
        title: if is_scored {
            "Reward model’s score of each frame"
        } else {
            "The environment’s reward at each step"
        }
        .into(),
        caption: match is_scored {
            true => {
                "One line per episode. A failed episode with high scores shows what fools the reward model."
            }
            false => "One line per episode.",
        }
        .into(),
        x_label: "seconds of video".into(),
        x_range: Some((0.0, track.secs)),
        x_unit: Unit::Number,
        y_range: Some(span),
        size: Size::UnderVideo,
        ends: Ends::Nothing,
        series,
        levels: levels.into_iter().collect(),
        ..Chart::default()
    })
}
