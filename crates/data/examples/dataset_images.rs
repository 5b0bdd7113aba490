//! Converts a folder of episodes with RLinf's defaults, and says how long it took:
//! `cargo run --release -p plaudit-data --example dataset_images -- RAW OUT [pt|store]`

use std::path::PathBuf;
use std::time::Instant;

use plaudit_data::convert::{ImageFormat, ImageOptions, convert_images};

#[allow(clippy::print_stdout)] // it is a program
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next();
    let (Some(raw), Some(out)) = (next(), next()) else {
        return Err("give a folder of episodes and a folder to write to".into());
    };
    let format = match next().as_deref() {
        None | Some("pt") => ImageFormat::Pt,
        Some("store") => ImageFormat::Store,
        Some(other) => return Err(format!("{other} is neither pt nor store").into()),
    };
    let [train, val] = ["train", "val"].map(|split| match format {
        ImageFormat::Pt => PathBuf::from(&out).join(split).with_extension("pt"),
        ImageFormat::Store => PathBuf::from(&out).join(split),
    });
    let options = ImageOptions { balance_val: true, format, ..ImageOptions::default() };
    let began = Instant::now();
    let report = convert_images(raw.as_ref(), &train, &val, &options, &|_| {})?;
    println!("{}", report.metadata_text());
    println!("{:.2} s", began.elapsed().as_secs_f64());
    Ok(())
}
