//! MCAP: a recording of a robot per file. Frames are those of the main camera; what other topics said is put beside them by time.

use std::path::Path;

use plaudit_pyfiles::{Array, DType};

use super::error::OpenError;
use super::formats::Format;
use super::image_file::{EncodedImage, check_sides};
use super::item::{Item, Items};
use super::observation::Columns;
use super::probe::{Probe, by_outcome, is_inside};
use super::{AfterLast, FileProblem, Recording, Rules, keys};
use crate::mcap::{Channel, Content, Kind, McapError, McapFile, Message, Picture, SCORE_TOPIC};

pub(super) const FORMAT: Format = Format {
    name: "mcap",
    describe: "recordings of a robot in MCAP",
    is_at,
    items,
    location: |entry, key| format!("the image of `{key}` at frame {entry}"),
    ..Format::EPISODES
};

const OUTCOMES: [&str; 2] = ["success", "failure"];
const ACTION: [&str; 2] = ["action", "actions"];
const SUCCESS: [&str; 1] = ["success"];
const REWARD: [&str; 1] = ["reward"];
const TASK: [&str; 2] = ["task", "language_instruction"];

fn is_at(probe: &Probe<'_>) -> Result<bool, OpenError> {
    Ok(probe.is_file(&["mcap"])
        || !probe.path.is_file() && !by_outcome(probe.path, OUTCOMES, "mcap")?.is_empty())
}

fn items(path: &Path) -> Result<Items, OpenError> {
    let item = |(file, outcome): (std::path::PathBuf, Option<bool>)| {
        let is_own = path.is_file() || is_inside(path, &file);
        let from = file.clone();
        let read = move |rules: &Rules| match is_own {
            true => Ok(vec![read(&from, outcome, rules)?]),
            false => Err(FileProblem::Outside),
        };
        Item::new(file, read).with_outcome(outcome)
    };
    Ok(by_outcome(path, OUTCOMES, "mcap")?.into_iter().map(item).collect::<Vec<_>>().into())
}

/// A file. A folder `failure` says so of every frame; `success` does not say where.
fn read(path: &Path, outcome: Option<bool>, rules: &Rules) -> Result<Recording, FileProblem> {
    let file = McapFile::open(path)?;
    let topics = Topics::of(&file, rules)?;
    let frames = topics.frames()?;
    let steps = frames.len();
    let (success, labels) = topics.success(&frames)?;
    let success = success.or(outcome);
    let states: Vec<Vec<f32>> = match topics.states.is_empty() {
        true => Vec::new(),
        false => frames.iter().map(|time| topics.state(*time)).collect(),
    };
    let action = |time: &u64| topics.action.as_ref().and_then(|stream| stream.after(*time)).map(as_f32);
    let reward = |said: &[f64]| said.first().copied();
    let rewards = topics.reward.as_ref().map(|stream| {
        let at = |time: &u64| stream.before(*time).and_then(reward).unwrap_or(f64::NAN);
        frames.iter().map(at).collect()
    });
    Ok(Recording {
        labels: if success == Some(false) { vec![Some(false); steps] } else { labels },
        success,
        actions: frames.iter().filter_map(action).collect(),
        rewards: rewards.unwrap_or_default(),
        task: topics.task.as_deref().map(Into::into),
        observations: topics.columns(&frames, states)?.rows(steps),
        after_last: AfterLast::Repeated,
        position: [None, None, Some(steps as u64)],
        ..Recording::default()
    })
}

/// Messages of images.
struct Camera<'a> {
    topic: &'a str,
    kind: Kind,
    messages: &'a [Message],
}

/// Numbers by time.
struct Stream {
    topic: String,
    times: Vec<u64>,
    numbers: Vec<Vec<f64>>,
}

impl Stream {
    /// What was said last, at this time or before.
    fn before(&self, time: u64) -> Option<&[f64]> {
        let after = self.times.partition_point(|said| *said <= time);
        after.checked_sub(1).map(|at| self.numbers[at].as_slice())
    }

    /// What was said first, at this time or after.
    fn after(&self, time: u64) -> Option<&[f64]> {
        self.numbers.get(self.times.partition_point(|said| *said < time)).map(Vec::as_slice)
    }
}

/// What the topics of a file are for.
struct Topics<'a> {
    /// The main one first.
    cameras: Vec<Camera<'a>>,
    states: Vec<Stream>,
    action: Option<Stream>,
    success: Option<Stream>,
    reward: Option<Stream>,
    task: Option<String>,
}

impl<'a> Topics<'a> {
    fn of(file: &'a McapFile, rules: &Rules) -> Result<Self, FileProblem> {
        let mut found = Self {
            cameras: Vec::new(),
            states: Vec::new(),
            action: None,
            success: None,
            reward: None,
            task: None,
        };
        for (channel, messages) in file.topics() {
            check_clock(channel, messages)?;
            // What a reward model thought of the frames is nothing that was seen.
            if channel.topic == SCORE_TOPIC {
                continue;
            }
            let kind = Kind::of(channel);
            let is = |words: &[&str]| words.contains(&channel.topic.rsplit('/').next().unwrap_or_default());
            let has_role = [&ACTION[..], &SUCCESS, &REWARD, &TASK].iter().any(|words| is(words));
            match kind {
                Kind::OtherImage => return Err(unsupported(channel).into()),
                Kind::Other if has_role => return Err(unsupported(channel).into()),
                Kind::Other => {}
                _ if kind.is_image() => found.add_camera(channel, kind, messages)?,
                _ if is(&TASK) => found.task = text(channel, kind, messages)?,
                _ => {
                    let slot = match () {
                        () if is(&ACTION) => &mut found.action,
                        () if is(&SUCCESS) => &mut found.success,
                        () if is(&REWARD) => &mut found.reward,
                        () => {
                            found.states.extend(stream(channel, kind, messages)?);
                            continue;
                        }
                    };
                    if slot.is_some() {
                        let topic = channel.topic.clone();
                        let what = format!("`{topic}` and another topic are both called so");
                        return Err(FileProblem::Lists { what });
                    }
                    *slot = Some(stream(channel, kind, messages)?.ok_or_else(|| unsupported(channel))?);
                }
            }
        }
        if found.cameras.is_empty() {
            let names: Vec<String> =
                file.topics().into_iter().map(|(channel, _)| channel.topic.clone()).collect();
            return Err(McapError::NoTopic { what: "topic of images", topics: names.join(", ") }.into());
        }
        let on_hand = |camera: &Camera<'_>| camera.topic.contains("wrist") || camera.topic.contains("hand");
        let is_asked = |camera: &Camera<'_>| name(camera.topic) == rules.main_camera;
        found.cameras.sort_by_key(|camera| (!is_asked(camera), on_hand(camera)));
        Ok(found)
    }

    /// A camera, unless it measures distances.
    fn add_camera(
        &mut self,
        channel: &'a Channel,
        kind: Kind,
        messages: &'a [Message],
    ) -> Result<(), FileProblem> {
        let camera = Camera { topic: &channel.topic, kind, messages };
        let first = messages.first().map(|message| content(&channel.topic, kind, message)).transpose()?;
        if !matches!(first, Some(Content::Image(Picture::Depth))) {
            self.cameras.push(camera);
        }
        Ok(())
    }

    /// The times of the main camera at which everything else is known: no other camera or state begins later, and an action
    /// follows.
    fn frames(&self) -> Result<Vec<u64>, McapError> {
        let main = &self.cameras[0];
        let others = self.cameras[1..]
            .iter()
            .map(|camera| (camera.topic, camera.messages.first().map(|one| one.time)));
        let states = self.states.iter().map(|stream| (stream.topic.as_str(), stream.times.first().copied()));
        let latest = others.chain(states).max_by_key(|(_, first)| *first);
        let start = latest.and_then(|(_, first)| first).unwrap_or(0);
        let end = self.action.as_ref().map_or(u64::MAX, |stream| stream.times.last().copied().unwrap_or(0));
        let times = main.messages.iter().map(|message| message.time);
        let found: Vec<u64> = times.filter(|time| (start..=end).contains(time)).collect();
        match found.is_empty() {
            true => {
                let topic = latest.map_or("nothing", |(topic, _)| topic);
                let why = format!("`{topic}` begins at {start} ns, and the last action is at {end} ns");
                Err(McapError::NoFrames { camera: main.topic.into(), why })
            }
            false => Ok(found),
        }
    }

    /// What all topics of numbers said last, one after the other, by topic.
    fn state(&self, time: u64) -> Vec<f32> {
        self.states.iter().flat_map(|stream| stream.before(time).map(as_f32).unwrap_or_default()).collect()
    }

    /// How it went: by the last message, and where there are several, at each frame by the one before it.
    fn success(&self, frames: &[u64]) -> Result<(Option<bool>, Vec<Option<bool>>), FileProblem> {
        let unknown = vec![None; frames.len()];
        let Some(stream) = &self.success else { return Ok((None, unknown)) };
        let label = |said: &[f64]| {
            let number = said.first().copied().unwrap_or(f64::NAN);
            keys::zero_or_one(number).ok_or_else(|| keys::not_a_label(number, format!("`{}`", stream.topic)))
        };
        let said: Vec<bool> = stream.numbers.iter().map(|said| label(said)).collect::<Result<_, _>>()?;
        match said[..] {
            [] => Ok((None, unknown)),
            [only] => Ok((Some(only), unknown)),
            _ => {
                let at = |time: &u64| stream.before(*time).map(label).transpose();
                let labels = frames.iter().map(at).collect::<Result<_, _>>()?;
                Ok((Some(said.contains(&true)), labels))
            }
        }
    }

    /// The image of every camera that was there at each frame.
    fn columns(&self, frames: &[u64], states: Vec<Vec<f32>>) -> Result<Columns, FileProblem> {
        let mut columns = Columns { states, main: Some(0), ..Columns::default() };
        for camera in &self.cameras {
            let (mut raw, mut encoded) = (Vec::new(), Vec::new());
            for time in frames {
                let after = camera.messages.partition_point(|message| message.time <= *time);
                let message = &camera.messages[after.saturating_sub(1)];
                let failed = |what: String| damaged(camera.topic, message, what);
                match content(camera.topic, camera.kind, message)? {
                    Content::Image(Picture::Compressed(bytes)) => {
                        encoded
                            .push(EncodedImage::new(bytes).map_err(|problem| failed(problem.to_string()))?);
                    }
                    Content::Image(picture) => raw.push(pixels(&picture).map_err(failed)?),
                    _ => return Err(failed("it is no image".into()).into()),
                }
            }
            let name = name(camera.topic).to_owned();
            match encoded.is_empty() {
                true => columns.cameras.push((name, raw)),
                false => columns.encoded.push((name, encoded)),
            }
        }
        // Raw images come first there.
        let main = name(self.cameras[0].topic);
        let names =
            columns.cameras.iter().map(|(name, _)| name).chain(columns.encoded.iter().map(|(name, _)| name));
        columns.main = names.into_iter().position(|name| name == main);
        Ok(columns)
    }
}

/// `camera/front` of `/camera/front`.
fn name(topic: &str) -> &str {
    topic.trim_start_matches('/')
}

fn as_f32(numbers: &[f64]) -> Vec<f32> {
    numbers.iter().map(|number| *number as f32).collect()
}

fn unsupported(channel: &Channel) -> McapError {
    let schema = if channel.schema.is_empty() { "of no schema".into() } else { channel.schema.clone() };
    McapError::Unsupported { topic: channel.topic.clone(), schema, encoding: channel.encoding.clone() }
}

fn damaged(topic: &str, message: &Message, what: String) -> McapError {
    McapError::Message { topic: topic.into(), time: message.time, what }
}

fn content(topic: &str, kind: Kind, message: &Message) -> Result<Content, McapError> {
    kind.read(topic, message).map_err(|what| damaged(topic, message, what))
}

fn check_clock(channel: &Channel, messages: &[Message]) -> Result<(), McapError> {
    let back = messages.windows(2).find(|pair| pair[1].time < pair[0].time);
    match back {
        Some(pair) => {
            let (topic, before, after) = (channel.topic.clone(), pair[0].time, pair[1].time);
            Err(McapError::Clock { topic, before, after })
        }
        None => Ok(()),
    }
}

/// The first words of a topic.
fn text(channel: &Channel, kind: Kind, messages: &[Message]) -> Result<Option<String>, McapError> {
    match messages.first().map(|message| content(&channel.topic, kind, message)).transpose()? {
        Some(Content::Text(text)) => Ok(Some(text).filter(|text| !text.is_empty())),
        _ => Err(unsupported(channel)),
    }
}

/// The numbers of a topic: as many in every message. Nothing where the first has none.
fn stream(channel: &Channel, kind: Kind, messages: &[Message]) -> Result<Option<Stream>, McapError> {
    let topic = channel.topic.clone();
    let mut found = Stream { topic, times: Vec::new(), numbers: Vec::new() };
    for message in messages {
        match (content(&channel.topic, kind, message)?, found.numbers.first()) {
            (Content::Numbers(numbers), None) if numbers.is_empty() => return Ok(None),
            (Content::Numbers(numbers), first) if first.is_none_or(|first| first.len() == numbers.len()) => {
                found.times.push(message.time);
                found.numbers.push(numbers);
            }
            (_, None) => return Ok(None),
            (Content::Numbers(numbers), Some(first)) => {
                let what = format!("it has {} numbers, and the first has {}", numbers.len(), first.len());
                return Err(damaged(&channel.topic, message, what));
            }
            (_, Some(_)) => return Err(damaged(&channel.topic, message, "it has no numbers".into())),
        }
    }
    Ok(Some(found).filter(|stream| !stream.times.is_empty()))
}

/// An image as RGB.
fn pixels(picture: &Picture) -> Result<Array, String> {
    let Picture::Raw { height, width, encoding, step, data } = picture else {
        return Err("it is not as the first of its topic".into());
    };
    check_sides(*height, *width).map_err(|problem| problem.to_string())?;
    let order: &[usize] = match encoding.as_str() {
        "rgb8" | "rgba8" => &[0, 1, 2],
        "bgr8" | "bgra8" => &[2, 1, 0],
        "mono8" | "8UC1" => &[0, 0, 0],
        other => {
            return Err(format!("its encoding is `{other}`; rgb8, bgr8, rgba8, bgra8 and mono8 are read"));
        }
    };
    let channels = match encoding.as_str() {
        "rgba8" | "bgra8" => 4,
        "mono8" | "8UC1" => 1,
        _ => 3,
    };
    let row = width * channels;
    let needed = step.saturating_mul(height - 1).saturating_add(row);
    if *step < row || data.len() < needed {
        return Err(format!(
            "{} bytes with rows of {step} are no image of {height}x{width} in {encoding}",
            data.len()
        ));
    }
    let mut rgb = Vec::with_capacity(height * width * 3);
    for row in (0..*height).map(|at| &data[at * step..at * step + row]) {
        row.chunks_exact(channels).for_each(|pixel| rgb.extend(order.iter().map(|channel| pixel[*channel])));
    }
    Array::new(DType::U8, &[*height, *width, 3], rgb).map_err(|error| error.to_string())
}
