//! Writes what the cameras of a task see while its expert works, as one PNG: a line per camera.
//!
//! `cargo run -p plaudit-env --example contact_sheet -- PickCube-v1 sheet.png [side in pixels] [seed]`

use std::error::Error;

use plaudit_core::{Obs, Policy, Seed, Watch};
use plaudit_env::{
    CameraName, CameraSettings, ControlMode, EnvId, EnvSettings, PegInsertionExpert, PegInsertionSettings,
    PickCubeExpert, PickCubeSettings, make,
};

const COLUMNS: usize = 6;
/// The steps of the first column and the last: when the expert begins, and when it is about done.
const PICK_CUBE_STEPS: usize = 27;
const PEG_INSERTION_STEPS: usize = 47;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let id: EnvId = arguments.next().as_deref().unwrap_or("PickCube-v1").parse()?;
    let path = arguments.next().unwrap_or_else(|| "sheet.png".into());
    let side: usize = arguments.next().map_or(Ok(128), |text| text.parse())?;
    let seed: u64 = arguments.next().map_or(Ok(3), |text| text.parse())?;
    let Show { settings, mut expert, steps } = show(id, side)?;
    let mut env = make(&settings)?;
    env.watch(Watch::Everything);
    let mut obs = env.reset(Seed::new(seed))?;
    let mut sheet = Sheet::new(env.spec().cameras.len(), side);
    for t in 0..=steps {
        for column in (0..COLUMNS).filter(|column| column * steps / (COLUMNS - 1) == t) {
            sheet.paste(column, &obs);
        }
        obs = env.step(&expert.act(&obs, Seed::new(0))?.actions)?.obs;
    }
    sheet.write(&path)
}

/// One environment with every camera, who solves it, and in how many steps.
struct Show {
    settings: EnvSettings,
    expert: Box<dyn Policy>,
    steps: usize,
}

fn show(id: EnvId, side: usize) -> Result<Show, Box<dyn Error>> {
    let names = [CameraName::BaseCamera, CameraName::ThirdViewCamera, CameraName::HandCamera];
    let cameras = Some(names.map(|name| CameraSettings { name, width: side, height: side }).to_vec());
    let plain = EnvSettings { ignore_terminations: true, ..EnvSettings::new(id, 1) };
    let mode = ControlMode::default();
    Ok(match id {
        EnvId::PegInsertionSideV1 => {
            let peg_insertion = Some(PegInsertionSettings { cameras, ..PegInsertionSettings::default() });
            let expert = Box::new(PegInsertionExpert::new(mode)?);
            let settings = EnvSettings { peg_insertion, ..plain };
            Show { settings, expert, steps: PEG_INSERTION_STEPS }
        }
        _ => {
            let pick_cube = Some(PickCubeSettings { cameras, ..PickCubeSettings::default() });
            let expert = Box::new(PickCubeExpert::new(mode));
            Show { settings: EnvSettings { pick_cube, ..plain }, expert, steps: PICK_CUBE_STEPS }
        }
    })
}

/// Pictures side by side.
struct Sheet {
    side: usize,
    pixels: Vec<u8>,
}

impl Sheet {
    fn new(lines: usize, side: usize) -> Self {
        Self { side, pixels: vec![0; lines * side * COLUMNS * side * 3] }
    }

    fn paste(&mut self, column: usize, obs: &Obs) {
        let side = self.side;
        for (line, (_, frames)) in obs.cameras.iter().enumerate() {
            for (row, pixels) in frames.image(0).chunks_exact(side * 3).enumerate() {
                let at = ((line * side + row) * COLUMNS + column) * side * 3;
                self.pixels[at..at + side * 3].copy_from_slice(pixels);
            }
        }
    }

    fn write(&self, path: &str) -> Result<(), Box<dyn Error>> {
        let width = COLUMNS * self.side;
        let height = self.pixels.len() / (width * 3);
        let file = std::io::BufWriter::new(std::fs::File::create(path)?);
        let mut encoder = png::Encoder::new(file, width as u32, height as u32);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::High);
        encoder.set_filter(png::Filter::Adaptive);
        encoder.write_header()?.write_image_data(&self.pixels)?;
        Ok(())
    }
}
