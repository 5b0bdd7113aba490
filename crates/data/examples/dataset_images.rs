//! Converts a folder of episodes with RLinf's defaults, and says how long it took:
//! `cargo run --release -p plaudit-data --example dataset_images -- RAW OUT`

use std::path::PathBuf;
use std::time::Instant;

use plaudit_data::convert::{ImageOptions, convert_images};

#[allow(clippy::print_stdout)] // it is a program
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [raw, out] = &arguments[..] else {
        return Err("give a folder of episodes and a folder to write to".into());
    };
    let options = ImageOptions { balance_val: true, ..ImageOptions::default() };
    let began = Instant::now();
    let report = convert_images(raw, &out.join("train.pt"), &out.join("val.pt"), &options, &|_| {})?;
    println!("{}", report.metadata_text());
    println!("{:.2} s", began.elapsed().as_secs_f64());
    Ok(())
}
