//! `plaudit dataset render`: ManiSkill's trajectories of embedded tasks get images.

mod scene;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use plaudit_core::FrameShape;
use plaudit_data::episode::{CameraTrack, CollectionRun, Ending, Episode, EpisodeWriter, Targets};
use plaudit_data::recording::{BadFile, FileProblem, SimulatedEpisode, SimulatedEpisodes};
use plaudit_data::store::Origin;
use plaudit_env::{CameraName, CameraSettings};

use self::scene::{RecordedScene, SceneProblem};
use super::left_out::left_out;
use crate::cli::Verbosity;
use crate::console;
use crate::failure::Failure;
use crate::hints::{self, AskedBy};
use crate::progress::{ProgressBar, ProgressUpdate};

/// Give ManiSkill's trajectories images: PickCube-v1 and PegInsertionSide-v1, drawn as the built-in simulator draws them
///
/// Trajectories are published without images, or with states alone. The states of the simulator (`env_states`) say where the
/// robot and all things were; a store of episodes with images is made of them, which every command reads. The state of an
/// episode is what was observed, or the joints and their speeds where nothing was. Of PegInsertionSide-v1, trajectories with
/// full states are needed (`-o state`): nothing else says how large peg and hole are.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit dataset render trajectory.h5 --output-dir rendered
  plaudit dataset render trajectory.state.h5 --output-dir rendered \\
      --camera base_camera --camera hand_camera --size 224
  plaudit dataset render demos --output-dir rendered --env-id PickCube-v1")]
pub struct Render {
    /// A file *.h5 of ManiSkill, or a folder of them
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// The store that episodes go to
    #[arg(long, value_name = "DIR")]
    output_dir: PathBuf,
    /// A camera; may be repeated, and the first is the main one: base_camera, hand_camera, 3rd_view_camera, render_camera
    #[arg(long, value_name = "NAME", value_parser = camera_name, default_value = "base_camera")]
    camera: Vec<CameraName>,
    /// Pixels of each side of an image
    #[arg(long, value_name = "PIXELS", default_value_t = 128, value_parser = clap::value_parser!(u64).range(8..=2048))]
    size: u64,
    /// Do not draw the goal of PickCube; ManiSkill's own cameras do not see it
    #[arg(long)]
    hide_goal: bool,
    /// Which task it is, where the file beside the trajectories does not say it
    #[arg(long, value_name = "ID")]
    env_id: Option<String>,
    /// Leave out episodes and files that cannot be used, and list them
    #[arg(long)]
    skip_bad: bool,
}

fn camera_name(text: &str) -> Result<CameraName, String> {
    let all = [
        CameraName::BaseCamera,
        CameraName::HandCamera,
        CameraName::ThirdViewCamera,
        CameraName::RenderCamera,
    ];
    let found = all.into_iter().find(|name| name.as_str() == text);
    found.ok_or_else(|| format!("the cameras are {}", all.map(CameraName::as_str).join(", ")))
}

impl Render {
    /// Does it.
    pub fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        let found = SimulatedEpisodes::open(&self.path).map_err(|error| {
            let help = hints::about_open(&error, AskedBy::Model);
            Failure::usage(error, help)
        })?;
        let mut skipped = Vec::new();
        let (broken, found) = (found.broken, found.episodes);
        for bad in broken {
            self.pass_over(bad, &mut skipped)?;
        }
        let origin = Origin::new("dataset render");
        let (targets, by) = (Targets::default(), CollectionRun::Anonymous);
        let mut writer =
            EpisodeWriter::into_store(&self.output_dir, origin, targets, by).map_err(unwritten)?;
        let bar = ProgressBar::new("dataset render", verbosity);
        let total = found.len();
        let mut written = 0u64;
        for (done, place) in found.iter().enumerate() {
            bar.show(ProgressUpdate { what: "rendering", unit: "episodes", done, total });
            match place.read().map(|simulated| self.rendered(simulated)) {
                Ok(Ok(episode)) => {
                    writer.write(episode).map_err(unwritten)?;
                    written += 1;
                }
                Ok(Err(problem)) if self.skip_bad => {
                    let problem = Box::new(FileProblem::Lists { what: problem.to_string() });
                    skipped.push(BadFile { path: place.path(), problem });
                }
                Ok(Err(problem)) => {
                    let message = format!("{}: {problem}", place.path().display());
                    return Err(Failure::usage(message, problem.hint()));
                }
                Err(bad) => self.pass_over(bad, &mut skipped)?,
            }
        }
        drop(bar);
        writer.finish(Ending::Complete).map_err(unwritten)?;
        if written == 0 {
            let message = format!("there is no trajectory to render in {}", self.path.display());
            return Err(Failure::runtime(message, "`plaudit dataset verify` says why".to_string()));
        }
        console::print(&format!("{written} episodes in {}\n", self.output_dir.display()))?;
        if let Some(text) = left_out(&skipped, verbosity.verbose).filter(|_| !verbosity.quiet) {
            console::eprintln(&text);
        }
        Ok(())
    }

    fn pass_over(&self, bad: BadFile, skipped: &mut Vec<BadFile>) -> Result<(), Failure> {
        if self.skip_bad {
            skipped.push(bad);
            return Ok(());
        }
        let hint = bad.problem.hint().unwrap_or("--skip-bad leaves out what cannot be used");
        Err(Failure::runtime(&bad, hint.to_string()))
    }

    /// The episode with images.
    fn rendered(&self, simulated: SimulatedEpisode) -> Result<Episode, SceneProblem> {
        let SimulatedEpisode { mut episode, success, states } = simulated;
        episode.success = success.ok_or(SceneProblem::NoSuccess)?;
        let scene = RecordedScene::of(self.env_id.as_deref(), &states, &episode.states)?;
        let side = self.size as usize;
        for name in &self.camera {
            let camera = CameraSettings { name: *name, width: side, height: side };
            let mut pixels = Vec::new();
            for at in 0..=episode.len() {
                pixels.extend(scene.draw(at, camera, !self.hide_goal)?);
            }
            let (name, shape) = (Arc::from(name.as_str()), FrameShape::rgb(side, side));
            episode.cameras.push(CameraTrack { name, shape, pixels: pixels.into() });
        }
        if episode.states.first().is_none_or(Vec::is_empty) {
            episode.states = scene.joint_states();
        }
        Ok(episode)
    }
}

fn unwritten(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::runtime(error, "give --output-dir a folder that can be written, or another store".to_string())
}
