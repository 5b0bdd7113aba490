//! Trajectories as ManiSkill's `RecordEpisode` writes them: an HDF5 file with a group `traj_N` for each episode, and a `.json` of
//! the same name that describes them.
//!
//! There is one observation more than actions. Images of a camera are compressed one by one, so that a reader can get at any of
//! them; the images of one camera in one episode are in memory together, and nothing else is.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use hdf5_pure::{
    Datatype, EnumTypeBuilder, File, FileAccessProperties, FileCreateProperties, StagedGroup, SyncPolicy,
    make_i8_type,
};
use plaudit_core::End;
use plaudit_pyfiles::AtomicFile;
use serde_json::{Value, json};

use super::prepared::Prepared;
use super::{EpisodeExporter, ExportProblem};
use crate::lerobot::KnownSuccess;
use crate::recording::MAIN;

const NAME: &str = "trajectory";
/// What ManiSkill's tasks call their main camera.
const MAIN_CAMERA: &str = "base_camera";
/// As hard as ManiSkill has images compressed.
const DEFLATE_LEVEL: u32 = 5;

/// Writes all episodes into one file.
pub(super) struct Exporter {
    folder: PathBuf,
    env_id: Option<String>,
    /// It is there from the first episode on.
    file: Option<File>,
    /// numpy's bool.
    bool_type: Datatype,
    /// What the JSON file says of each episode.
    described: Vec<Value>,
    obs_mode: &'static str,
}

impl Exporter {
    pub(super) fn new(folder: &Path, env_id: Option<String>) -> Result<Self, ExportProblem> {
        let bool_type = EnumTypeBuilder::with_base(make_i8_type()).value("FALSE", 0).value("TRUE", 1).build();
        let bool_type = bool_type.map_err(hdf5_pure::Error::from)?;
        let (folder, described) = (folder.into(), Vec::new());
        Ok(Self { folder, env_id, file: None, bool_type, described, obs_mode: "none" })
    }

    /// Closes the file, and writes what describes it.
    pub(super) fn finish(mut self) -> Result<(), ExportProblem> {
        let Some(file) = self.file.take() else { return Ok(()) };
        file.close()?;
        let description = json!({
            "env_info": {
                "env_id": self.env_id,
                "max_episode_steps": null,
                "env_kwargs": { "obs_mode": self.obs_mode },
            },
            "commit_info": null,
            "episodes": self.described,
            "source_type": "plaudit",
            "source_desc": concat!("exported by plaudit ", env!("CARGO_PKG_VERSION")),
        });
        let text = format!("{description:#}\n");
        Ok(AtomicFile::write(&self.folder.join(NAME).with_extension("json"), [text.as_bytes()])?)
    }

    fn open(&mut self) -> Result<File, ExportProblem> {
        if let Some(file) = &self.file {
            return Ok(file.clone());
        }
        fs::create_dir_all(&self.folder)?;
        // The folder has a hidden name until all of it is there: nobody needs the file to be whole before.
        let access = FileAccessProperties::new().with_sync_policy(SyncPolicy::OnClose);
        let path = self.folder.join(NAME).with_extension("h5");
        let file = File::create_with_options(path, FileCreateProperties::new(), access)?;
        self.file = Some(file.clone());
        Ok(file)
    }

    /// Actions and what they led to.
    fn numbers(&self, group: &mut StagedGroup<'_>, episode: &Prepared) {
        let (numbers, after) = (&episode.episode, &episode.episode.timesteps[1..]);
        rows(group, "actions", &numbers.actions);
        let mut flags = |name: &str, flags: Vec<u8>| {
            group.create_dataset(name, |dataset| {
                dataset.with_enum_u8_data(self.bool_type.clone(), &flags);
            });
        };
        flags("terminated", after.iter().map(|step| u8::from(step.end == End::Terminated)).collect());
        flags("truncated", after.iter().map(|step| u8::from(step.end == End::Truncated)).collect());
        if episode.success == KnownSuccess::Steps {
            flags("success", after.iter().map(|step| u8::from(step.success == Some(true))).collect());
        }
        if episode.has_rewards {
            let rewards: Vec<f32> = after.iter().map(|step| step.reward).collect();
            group.create_dataset("rewards", |dataset| {
                dataset.with_f32_data(&rewards);
            });
        }
    }

    fn describe(&mut self, episode: &Prepared) {
        let mut described = json!({
            "episode_id": self.described.len(),
            "episode_seed": null,
            "control_mode": null,
            "elapsed_steps": episode.len(),
            "reset_kwargs": {},
            "source_name": episode.name,
        });
        if episode.success != KnownSuccess::Nothing {
            described["success"] = episode.episode.success.into();
        }
        if let Some(task) = &episode.episode.task {
            described["task"] = (**task).into();
        }
        self.described.push(described);
    }
}

impl EpisodeExporter for Exporter {
    fn write(&mut self, episode: &Prepared) -> Result<(), ExportProblem> {
        let cameras = camera_groups(episode)?;
        let file = self.open()?;
        let name = format!("traj_{}", self.described.len());
        let states = &episode.episode.states;
        let has_states = states.first().is_some_and(|state| !state.is_empty());
        file.root().create_group_with(&name, |group| {
            self.numbers(group, episode);
            match (has_states, cameras.is_empty()) {
                (true, true) => rows(group, "obs", states),
                (false, true) => {}
                (_, false) => {
                    group.create_group_with("obs", |seen| {
                        if has_states {
                            rows(seen, "state", states);
                        }
                        seen.create_group("sensor_data");
                    });
                }
            }
        })?;
        file.commit()?;
        for (camera, group) in cameras.iter().enumerate() {
            write_images(&file, &format!("{name}/obs/sensor_data/{group}"), episode, camera)?;
        }
        self.describe(episode);
        self.obs_mode = match (has_states, cameras.is_empty()) {
            (true, true) => "state",
            (true, false) => "rgb+state",
            (false, false) => "rgb",
            (false, true) => "none",
        };
        Ok(())
    }
}

/// A dataset with a row of numbers for each step.
fn rows(group: &mut StagedGroup<'_>, name: &str, rows: &[Vec<f32>]) {
    let shape = [rows.len() as u64, rows.first().map_or(0, Vec::len) as u64];
    group.create_dataset(name, |dataset| {
        dataset.with_f32_data(&rows.concat()).with_shape(&shape);
    });
}

/// Every image of a camera.
fn write_images(file: &File, path: &str, episode: &Prepared, camera: usize) -> Result<(), ExportProblem> {
    let (name, shape) = &episode.cameras[camera];
    let mut pixels = Vec::new();
    for frame in 0..=episode.len() {
        let wrong = |why| ExportProblem::Image { camera: name.to_string(), frame, why };
        pixels.extend(episode.image(camera, frame).map_err(wrong)?);
    }
    let sides = [shape.height as u64, shape.width as u64, shape.channels as u64];
    file.root().create_group_with(path, |group| {
        group.create_dataset("rgb", |dataset| {
            let count = episode.len() as u64 + 1;
            dataset.with_u8_data(&pixels).with_shape(&[count, sides[0], sides[1], sides[2]]);
            dataset.with_chunks(&[1, sides[0], sides[1], sides[2]]).with_deflate(DEFLATE_LEVEL);
        });
    })?;
    Ok(file.commit()?)
}

/// What each camera is called in the file: a name that can stand in a path. RLinf's main view is what ManiSkill calls it.
fn camera_groups(episode: &Prepared) -> Result<Vec<String>, ExportProblem> {
    let plain = |sign: char| if sign.is_ascii_alphanumeric() || "._-".contains(sign) { sign } else { '_' };
    let has_main = episode.cameras.iter().any(|(name, _)| &**name == MAIN_CAMERA);
    let group = |name: &str| match name {
        MAIN if !has_main => MAIN_CAMERA.to_owned(),
        // `.` and `..` are no names.
        name => match name.chars().map(plain).collect::<String>().trim_matches('.') {
            "" => "camera".into(),
            name => name.to_owned(),
        },
    };
    let mut names = BTreeMap::new();
    for (camera, _) in &episode.cameras {
        let group = group(camera);
        if let Some(other) = names.insert(group.clone(), camera) {
            return Err(ExportProblem::CameraName {
                camera: camera.to_string(),
                other: other.to_string(),
                group,
            });
        }
    }
    Ok(episode.cameras.iter().map(|(camera, _)| group(camera)).collect())
}
