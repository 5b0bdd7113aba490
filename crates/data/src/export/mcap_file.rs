//! MCAP files, one for each episode, as Foxglove and Rerun open them.
//!
//! `/camera/NAME` has PNG files as `foxglove.CompressedImage`, and `/pose/NAME` has `foxglove.PoseInFrame`; `/state`, `/action`, `/reward`,
//! `/success` and `/reward_model/score` have numbers. Frame i is at i / fps seconds, and what an action led to is at the time of the next
//! frame. A score is of the frame at its time.

use std::collections::BTreeMap;
use std::fs;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use mcap::records::MessageHeader;
use mcap::{WriteOptions, Writer};
use plaudit_draw::encode_png;
use plaudit_pyfiles::AtomicFile;

use super::pose::StatePose;
use super::prepared::Prepared;
use super::protobuf::{self, Schema};
use super::{EpisodeExporter, ExportProblem};
use crate::lerobot::KnownSuccess;
use crate::mcap::SCORE_TOPIC;

/// Bytes of a chunk: some dozen images, so that a viewer can jump.
const CHUNK: u64 = 1 << 20;
const NANOS: f64 = 1e9;

/// Writes an MCAP file for each episode.
pub(super) struct Exporter {
    folder: PathBuf,
    fps: f64,
    poses: Vec<StatePose>,
    written: u64,
}

impl Exporter {
    pub(super) fn new(folder: &Path, fps: f64, poses: &[StatePose]) -> Self {
        Self { folder: folder.into(), fps, poses: poses.to_vec(), written: 0 }
    }

    /// `000012_NAME.mcap`: in order, and never twice the same.
    fn path(&self, name: &str) -> PathBuf {
        let plain =
            |sign: char| if sign.is_ascii_alphanumeric() || "._-".contains(sign) { sign } else { '_' };
        let name: String = name.chars().take(100).map(plain).collect();
        self.folder.join(format!("{:06}_{name}.mcap", self.written))
    }
}

impl EpisodeExporter for Exporter {
    fn write(&mut self, episode: &Prepared) -> Result<(), ExportProblem> {
        fs::create_dir_all(&self.folder)?;
        let out = BufWriter::new(AtomicFile::create(&self.path(&episode.name))?);
        let mut file = File::begin(out, episode, self.fps, &self.poses)?;
        for frame in 0..=episode.len() {
            file.frame(episode, frame, &self.poses)?;
        }
        file.writer.finish()?;
        let out = file.writer.into_inner().into_inner().map_err(|error| error.into_error())?;
        out.commit()?;
        self.written += 1;
        Ok(())
    }
}

/// A file in the making: its channels, and how many messages each has.
struct File {
    writer: Writer<BufWriter<AtomicFile>>,
    cameras: Vec<u16>,
    state: Option<u16>,
    action: u16,
    reward: Option<u16>,
    success: Option<u16>,
    score: Option<u16>,
    poses: Vec<u16>,
    messages: BTreeMap<u16, u32>,
    fps: f64,
}

impl File {
    fn begin(
        out: BufWriter<AtomicFile>,
        episode: &Prepared,
        fps: f64,
        poses: &[StatePose],
    ) -> Result<Self, ExportProblem> {
        let options = WriteOptions::new()
            .compression(None) // PNG files are compressed, and numbers are few
            .chunk_size(Some(CHUNK))
            .library(concat!("plaudit ", env!("CARGO_PKG_VERSION")));
        let mut writer = options.create(out)?;
        let mut about =
            BTreeMap::from([("episode".to_owned(), episode.name.clone()), ("fps".into(), fps.to_string())]);
        about.extend(episode.episode.task.as_ref().map(|task| ("task".to_owned(), task.to_string())));
        if episode.success != KnownSuccess::Nothing {
            about.insert("success".into(), episode.episode.success.to_string());
        }
        writer.write_metadata(&mcap::records::Metadata { name: "episode".into(), metadata: about })?;
        let mut channel = |topic: &str, schema: &Schema| -> Result<u16, ExportProblem> {
            let id = writer.add_schema(&schema.full_name(), "protobuf", &schema.descriptors())?;
            Ok(writer.add_channel(id, topic, "protobuf", &BTreeMap::new())?)
        };
        let camera = |(name, _): &(std::sync::Arc<str>, _)| format!("/camera/{name}");
        let topics: Vec<String> = episode.cameras.iter().map(camera).collect();
        let cameras =
            topics.iter().map(|topic| channel(topic, &protobuf::IMAGE)).collect::<Result<_, _>>()?;
        let has_state = episode.episode.states.first().is_some_and(|state| !state.is_empty());
        let state = has_state.then(|| channel("/state", &protobuf::VECTOR)).transpose()?;
        let action = channel("/action", &protobuf::VECTOR)?;
        let reward = episode.has_rewards.then(|| channel("/reward", &protobuf::SCALAR)).transpose()?;
        let knows_steps = episode.success == KnownSuccess::Steps;
        let success = knows_steps.then(|| channel("/success", &protobuf::FLAG)).transpose()?;
        let has_scores = episode.scores.is_some();
        let score = has_scores.then(|| channel(SCORE_TOPIC, &protobuf::SCALAR)).transpose()?;
        let poses = poses.iter().map(|pose| channel(&format!("/pose/{}", pose.name), &protobuf::POSE));
        let poses = poses.collect::<Result<_, _>>()?;
        let messages = BTreeMap::new();
        Ok(Self { writer, cameras, state, action, reward, success, score, poses, messages, fps })
    }

    /// What is known at a frame: image and state before an action, the action, and what the one before led to.
    fn frame(&mut self, episode: &Prepared, frame: usize, poses: &[StatePose]) -> Result<(), ExportProblem> {
        let nanos = (frame as f64 / self.fps * NANOS).round() as u64;
        let numbers = &episode.episode;
        if frame < episode.len() {
            for (at, (name, shape)) in episode.cameras.iter().enumerate() {
                let wrong = |why: String| ExportProblem::Image { camera: name.to_string(), frame, why };
                let pixels = episode.image(at, frame).map_err(wrong)?;
                let png = encode_png(*shape, &pixels).ok_or_else(|| wrong("it is no image".into()))?;
                self.push(self.cameras[at], nanos, &protobuf::image(nanos, name, "png", &png))?;
            }
            if let Some(state) = self.state {
                self.push(state, nanos, &protobuf::vector(nanos, &numbers.states[frame]))?;
            }
            for (at, pose) in poses.iter().enumerate() {
                let (position, rotation) = pose.of(&numbers.states[frame], frame)?;
                self.push(
                    self.poses[at],
                    nanos,
                    &protobuf::pose(nanos, pose.frame_id(), position, rotation),
                )?;
            }
            self.push(self.action, nanos, &protobuf::vector(nanos, &numbers.actions[frame]))?;
            let score = episode.scores.as_ref().and_then(|scores| scores.get(frame));
            if let (Some(channel), Some(score)) = (self.score, score) {
                self.push(channel, nanos, &protobuf::scalar(nanos, f64::from(*score)))?;
            }
        }
        if frame > 0 {
            let timestep = &numbers.timesteps[frame];
            if let Some(reward) = self.reward {
                self.push(reward, nanos, &protobuf::scalar(nanos, f64::from(timestep.reward)))?;
            }
            if let (Some(channel), Some(success)) = (self.success, timestep.success) {
                self.push(channel, nanos, &protobuf::flag(nanos, success))?;
            }
        }
        Ok(())
    }

    fn push(&mut self, channel_id: u16, nanos: u64, data: &[u8]) -> Result<(), ExportProblem> {
        let sequence = self.messages.entry(channel_id).or_default();
        *sequence += 1;
        let header = MessageHeader { channel_id, sequence: *sequence, log_time: nanos, publish_time: nanos };
        Ok(self.writer.write_to_known_channel(&header, data)?)
    }
}
