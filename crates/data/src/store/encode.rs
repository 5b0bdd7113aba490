//! An episode as columns. The same episode always gives the same bytes.

use plaudit_core::{End, FrameShape};

use super::VERSION;
use super::columns::{Data, NewColumn, head};
use super::error::StoreError;
use super::id::EpisodeId;
use crate::episode::{Episode, Timestep};

/// What the metadata of an episode's file calls it.
pub(super) const FORMAT: &str = "plaudit episode";
/// What the names of cameras' columns begin with.
pub(super) const CAMERA: &str = "camera.";

/// Success is not known at this entry.
pub(super) const UNKNOWN: u8 = 2;

/// A file that is not yet written: its parts, in order.
pub(super) struct Encoded<'a> {
    head: Vec<u8>,
    columns: Vec<NewColumn<'a>>,
}

impl<'a> Encoded<'a> {
    pub(super) fn new(metadata: &[(&str, String)], columns: Vec<NewColumn<'a>>) -> Self {
        Self { head: head(metadata, &columns), columns }
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(&self.head[..]).chain(self.columns.iter().map(|column| column.data.bytes()))
    }

    pub(super) fn id(&self) -> EpisodeId {
        EpisodeId::of(self.parts())
    }

    /// The size of the file.
    pub(super) fn bytes(&self) -> u64 {
        (self.head.len() + self.columns.iter().map(|column| column.data.len()).sum::<usize>()) as u64
    }
}

/// An episode's file. Which environment it came from is not part of it: the same experience is the same file.
pub(super) fn encode(episode: &Episode) -> Result<Encoded<'_>, StoreError> {
    with_cameras(episode, cameras(episode)?)
}

/// The file of an episode of one camera whose images follow, one after the other.
pub(super) fn encode_with_images_later<'a>(
    episode: &'a Episode,
    name: &str,
    shape: FrameShape,
) -> Result<Encoded<'a>, StoreError> {
    let entries = episode.len() + 1;
    with_cameras(episode, vec![camera(name, shape, entries, Data::Later(entries * shape.bytes()))])
}

fn with_cameras<'a>(episode: &'a Episode, cameras: Vec<NewColumn<'a>>) -> Result<Encoded<'a>, StoreError> {
    let entries = episode.len() + 1;
    same("states", episode.states.len(), entries)?;
    same("timesteps", episode.timesteps.len(), entries)?;
    let facts = fact_names(episode)?;
    let mut columns = numbers(episode, &facts)?;
    columns.push(bytes("facts_known", vec![facts.len(), entries], known(episode, &facts)));
    columns.push(bytes("end", vec![entries], each(episode, |timestep| end_code(timestep.end))));
    columns.push(bytes(
        "success",
        vec![entries],
        each(episode, |timestep| timestep.success.map_or(UNKNOWN, u8::from)),
    ));
    columns.extend(cameras);

    let names: Vec<serde_json::Value> = facts.iter().map(|name| (*name).into()).collect();
    let mut metadata = vec![
        ("format", FORMAT.to_string()),
        ("version", VERSION.to_string()),
        ("success", episode.success.to_string()),
        ("facts", serde_json::Value::from(names).to_string()),
    ];
    if let Some(task) = &episode.task {
        metadata.push(("task", task.to_string()));
    }
    Ok(Encoded::new(&metadata, columns))
}

/// The columns of floats.
fn numbers<'a>(episode: &Episode, facts: &[&str]) -> Result<Vec<NewColumn<'a>>, StoreError> {
    let (entries, rewards) =
        (episode.len() + 1, episode.timesteps.iter().map(|timestep| timestep.reward).collect());
    let mut values = Vec::with_capacity(facts.len() * entries);
    for name in facts {
        values.extend(episode.timesteps.iter().map(|timestep| fact(timestep, name).unwrap_or(f32::NAN)));
    }
    Ok(vec![
        rows("state", &episode.states)?,
        rows("action", &episode.actions)?,
        floats("reward", vec![entries], rewards),
        floats("facts", vec![facts.len(), entries], values),
    ])
}

fn rows<'a>(name: &str, rows: &[Vec<f32>]) -> Result<NewColumn<'a>, StoreError> {
    let width = rows.first().map_or(0, Vec::len);
    for (at, row) in rows.iter().enumerate() {
        same(&format!("{name} {at}"), row.len(), width)?;
    }
    Ok(floats(name, vec![rows.len(), width], rows.concat()))
}

fn cameras(episode: &Episode) -> Result<Vec<NewColumn<'_>>, StoreError> {
    let entries = episode.len() + 1;
    let mut columns = Vec::with_capacity(episode.cameras.len());
    for (at, track) in episode.cameras.iter().enumerate() {
        let shape = track.shape;
        same(&format!("camera `{}`", track.name), track.pixels.len(), entries * shape.bytes())?;
        if episode.cameras[..at].iter().any(|other| other.name == track.name) {
            return Err(misfit("the list of cameras", format!("`{}` twice", track.name), "one of each name"));
        }
        columns.push(camera(&track.name, shape, entries, Data::Borrowed(&track.pixels)));
    }
    Ok(columns)
}

fn camera<'a>(name: &str, shape: FrameShape, entries: usize, data: Data<'a>) -> NewColumn<'a> {
    let FrameShape { height, width, channels } = shape;
    NewColumn { name: format!("{CAMERA}{name}"), shape: vec![entries, height, width, channels], data }
}

/// All names of facts, in the order in which they appear.
fn fact_names(episode: &Episode) -> Result<Vec<&str>, StoreError> {
    let mut names: Vec<&str> = Vec::new();
    for (entry, timestep) in episode.timesteps.iter().enumerate() {
        for (at, (name, _)) in timestep.facts.iter().enumerate() {
            if timestep.facts[..at].iter().any(|(other, _)| other == name) {
                return Err(misfit(&format!("entry {entry}"), format!("the fact `{name}` twice"), "it once"));
            }
            if !names.contains(&&**name) {
                names.push(name);
            }
        }
    }
    Ok(names)
}

fn known(episode: &Episode, facts: &[&str]) -> Vec<u8> {
    let of = |name| each(episode, move |timestep| u8::from(fact(timestep, name).is_some()));
    facts.iter().flat_map(|name| of(name)).collect()
}

fn fact(timestep: &Timestep, name: &str) -> Option<f32> {
    timestep.facts.iter().find(|(fact, _)| &**fact == name).map(|(_, value)| *value)
}

fn each(episode: &Episode, code: impl Fn(&Timestep) -> u8) -> Vec<u8> {
    episode.timesteps.iter().map(code).collect()
}

fn end_code(end: End) -> u8 {
    match end {
        End::No => 0,
        End::Terminated => 1,
        End::Truncated => 2,
    }
}

/// The end that a byte stands for.
pub(super) fn end_of(code: u8) -> Option<End> {
    [End::No, End::Terminated, End::Truncated].get(usize::from(code)).copied()
}

pub(super) fn floats<'a>(name: &str, shape: Vec<usize>, values: Vec<f32>) -> NewColumn<'a> {
    NewColumn { name: name.into(), shape, data: Data::Floats(values) }
}

fn bytes<'a>(name: &str, shape: Vec<usize>, values: Vec<u8>) -> NewColumn<'a> {
    NewColumn { name: name.into(), shape, data: Data::Bytes(values) }
}

fn same(what: &str, found: usize, expected: usize) -> Result<(), StoreError> {
    if found == expected { Ok(()) } else { Err(misfit(what, found.to_string(), &expected.to_string())) }
}

pub(super) fn misfit(what: &str, found: String, expected: &str) -> StoreError {
    StoreError::Misfit { what: what.into(), found, expected: expected.into() }
}
