//! Writes what the cameras of PickCube see while the expert works, as one PPM picture.
//!
//! `cargo run -p plaudit-env --example contact_sheet -- sheet.ppm [side in pixels]`

use plaudit_core::{Policy, Seed, Watch};
use plaudit_env::{
    CameraName, CameraSettings, ControlMode, EnvId, EnvSettings, PickCubeExpert, PickCubeSettings, make,
};

const COLUMNS: usize = 6;
const STEPS_BETWEEN: usize = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or_else(|| "sheet.ppm".into());
    let side: usize = arguments.next().map_or(Ok(128), |text| text.parse())?;
    let names = [CameraName::BaseCamera, CameraName::ThirdViewCamera, CameraName::HandCamera];
    let cameras = names.map(|name| CameraSettings { name, width: side, height: side }).to_vec();
    let settings = PickCubeSettings { cameras: Some(cameras), ..PickCubeSettings::default() };
    let settings = EnvSettings {
        ignore_terminations: true,
        pick_cube: Some(settings),
        ..EnvSettings::new(EnvId::PickCubeV1, 1)
    };
    let mut env = make(&settings)?;
    env.watch(Watch::Everything);
    let mut expert = PickCubeExpert::new(ControlMode::PdJointDeltaPos);
    let mut obs = env.reset(Seed::new(3))?;
    let mut sheet = vec![0; names.len() * side * COLUMNS * side * 3];
    for t in 0..COLUMNS * STEPS_BETWEEN {
        if t % STEPS_BETWEEN == 0 {
            for (line, (_, frames)) in obs.cameras.iter().enumerate() {
                for (row, pixels) in frames.image(0).chunks_exact(side * 3).enumerate() {
                    let at = ((line * side + row) * COLUMNS + t / STEPS_BETWEEN) * side * 3;
                    sheet[at..at + side * 3].copy_from_slice(pixels);
                }
            }
        }
        obs = env.step(&expert.act(&obs, Seed::new(0))?.actions)?.obs;
    }
    let mut file = format!("P6 {} {} 255\n", COLUMNS * side, names.len() * side).into_bytes();
    file.extend(sheet);
    std::fs::write(path, file)?;
    Ok(())
}
