//! The cameras of a robot, as a config or a flag names them.

use indexmap::IndexMap;
use plaudit_robot::{CameraAddress, Crop, CropRegion, FrameFit};

use super::task::RobotProblem;
use crate::config::blocks::env::EnvSettings;

/// What the main view is called where nothing is set.
const MAIN: &str = "wrist_1";

/// A camera: what it is called, where it is, what is kept of its images.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedCamera {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub address: CameraAddress,
    /// The part of its images that is kept.
    pub crop: Crop,
}

impl NamedCamera {
    /// Its images as squares of so many pixels.
    pub fn fit(&self, side: usize) -> FrameFit {
        FrameFit { crop: self.crop, ..FrameFit::square(side) }
    }
}

/// What RLinf calls the camera of this number, from 0.
pub fn usual_name(number: usize) -> String {
    format!("wrist_{}", number + 1)
}

/// The name of the main view.
pub(super) fn main_view(env: &EnvSettings) -> &str {
    env.main_image_key.as_deref().unwrap_or(MAIN)
}

/// The cameras that are written, the main view first.
pub fn written_cameras(env: &EnvSettings) -> Result<Vec<NamedCamera>, RobotProblem> {
    let robot = &env.override_cfg;
    let mut regions = Regions::of(&robot.camera_crop_regions)?;
    let mut cameras = Vec::new();
    for (name, text) in &robot.camera_urls {
        let address = address("camera_urls", text)?;
        cameras.push(NamedCamera { name: name.clone(), crop: regions.take(&[name, text]), address });
    }
    for (number, serial) in robot.camera_serials.iter().flatten().enumerate() {
        let address = address("camera_serials", serial)?;
        let name = robot.camera_names.get(serial).cloned().unwrap_or_else(|| usual_name(number));
        let crop = regions.take(&[&name, serial]);
        if cameras.iter().any(|camera: &NamedCamera| camera.name == name) {
            let message = format!("two cameras are called `{name}`");
            let hint = "give one another name in camera_names or camera_urls";
            return Err(RobotProblem::new("camera_serials", message, hint));
        }
        cameras.push(NamedCamera { name, crop, address });
    }
    if !cameras.is_empty() {
        regions.refuse_rest(&cameras)?;
        main_first(&mut cameras, main_view(env))?;
    }
    Ok(cameras)
}

/// The cameras of a simulated robot, called as the config calls its own.
pub(super) fn simulated_cameras(env: &EnvSettings, server: &str) -> Result<Vec<NamedCamera>, RobotProblem> {
    let mut regions = Regions::of(&env.override_cfg.camera_crop_regions)?;
    let main = main_view(env).to_string();
    let second = if main == MAIN { usual_name(1) } else { MAIN.into() };
    let camera = |(name, shown): (String, &str)| NamedCamera {
        crop: regions.take(&[&name]),
        address: CameraAddress::Http(format!("{server}/camera/{shown}")),
        name,
    };
    let cameras: Vec<NamedCamera> =
        [(main, "hand_camera"), (second, "base_camera")].into_iter().map(camera).collect();
    regions.refuse_rest(&cameras)?;
    Ok(cameras)
}

fn address(key: &'static str, text: &str) -> Result<CameraAddress, RobotProblem> {
    text.parse()
        .map_err(|error| RobotProblem::new(key, error, "`plaudit robot doctor --camera ADDRESS` tries one"))
}

fn main_first(cameras: &mut [NamedCamera], main: &str) -> Result<(), RobotProblem> {
    let Some(at) = cameras.iter().position(|camera| camera.name == main) else {
        let names = cameras.iter().map(|camera| camera.name.as_str()).collect::<Vec<_>>().join(", ");
        let message = format!("no camera is called `{main}`, as the main view is; there is {names}");
        let hint = "set main_image_key to one of them, or name it in camera_names or camera_urls";
        return Err(RobotProblem::new("camera_urls", message, hint));
    };
    cameras[..=at].rotate_right(1);
    Ok(())
}

/// The parts of images to keep that no camera has taken yet.
struct Regions<'a>(Vec<(&'a str, CropRegion)>);

impl<'a> Regions<'a> {
    fn of(written: &'a IndexMap<String, [f64; 4]>) -> Result<Self, RobotProblem> {
        let region = |(key, numbers): (&'a String, &[f64; 4])| {
            let region = CropRegion::new(*numbers).map_err(|error| {
                let hint = "the middle half is [0.25, 0.25, 0.75, 0.75]";
                RobotProblem::new("camera_crop_regions", format!("`{key}`: {error}"), hint)
            })?;
            Ok((key.as_str(), region))
        };
        written.iter().map(region).collect::<Result<_, _>>().map(Self)
    }

    fn take(&mut self, names: &[&str]) -> Crop {
        let at = self.0.iter().position(|(key, _)| names.contains(key));
        at.map_or(Crop::Centre, |at| Crop::Region(self.0.remove(at).1))
    }

    fn refuse_rest(&self, cameras: &[NamedCamera]) -> Result<(), RobotProblem> {
        let Some((key, _)) = self.0.first() else { return Ok(()) };
        let names = cameras.iter().map(|camera| camera.name.as_str()).collect::<Vec<_>>().join(", ");
        let message = format!("it names `{key}`, and there is {names}");
        Err(RobotProblem::new("camera_crop_regions", message, "name a camera by its name or serial number"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::blocks::robot::RobotSettings;

    fn env(override_cfg: RobotSettings) -> EnvSettings {
        EnvSettings { override_cfg, ..EnvSettings::default() }
    }

    fn serials(serials: &[&str]) -> Option<Vec<String>> {
        Some(serials.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn serials_have_usual_names_and_regions_by_serial_or_name() {
        let region = [0.0, 0.1, 0.5, 0.9];
        let settings = RobotSettings {
            camera_serials: serials(&["0123", "/dev/video2"]),
            camera_crop_regions: [("0123".to_string(), region)].into(),
            ..RobotSettings::default()
        };
        let mut env = env(settings);
        let names = |env: &EnvSettings| -> Vec<(String, Crop)> {
            written_cameras(env).unwrap().into_iter().map(|camera| (camera.name, camera.crop)).collect()
        };
        let cut = Crop::Region(CropRegion::new(region).unwrap());
        assert_eq!(names(&env), [("wrist_1".into(), cut), ("wrist_2".into(), Crop::Centre)]);
        env.main_image_key = Some("wrist_2".into());
        env.override_cfg.camera_crop_regions = [("wrist_2".to_string(), region)].into();
        assert_eq!(
            names(&env),
            [("wrist_2".into(), cut), ("wrist_1".into(), Crop::Centre)],
            "the main view first"
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_key() {
        let wrong = |settings: RobotSettings| written_cameras(&env(settings)).unwrap_err();
        let usual = || RobotSettings { camera_serials: serials(&["0123"]), ..RobotSettings::default() };
        let error = wrong(RobotSettings { camera_serials: serials(&["rtsp://cam"]), ..usual() });
        assert!(error.key == "camera_serials" && error.message.contains("`rtsp` is not spoken"), "{error:?}");
        let named = [("0123".to_string(), "top".to_string())].into();
        let error = wrong(RobotSettings { camera_names: named, ..usual() });
        assert!(error.message.contains("no camera is called `wrist_1`"), "{error:?}");
        let odd = [("0123".to_string(), [0.5, 0.0, 0.2, 1.0])].into();
        let error = wrong(RobotSettings { camera_crop_regions: odd, ..usual() });
        assert!(error.message.contains("`0123`: [top, left, bottom, right]"), "{error:?}");
        let other = [("9".to_string(), [0.0, 0.0, 1.0, 1.0])].into();
        let error = wrong(RobotSettings { camera_crop_regions: other, ..usual() });
        assert!(error.message.contains("names `9`, and there is wrist_1"), "{error:?}");
        let twice = [("wrist_1".to_string(), "/dev/video0".to_string())].into();
        let error = wrong(RobotSettings { camera_urls: twice, ..usual() });
        assert!(error.message.contains("two cameras are called `wrist_1`"), "{error:?}");
    }
}
