//! Times the reading of a `.pt` dataset or a pickle: opened, understood, and every byte of every array touched.
//!
//!     cargo run --release -p plaudit-data --example load_images -- FILE
//!
//! Prints seconds until the value was there, seconds until all bytes were touched, the number of arrays, and a sum over
//! their bytes. `bench/python_files/bench.py` runs it side by side with torch.
#![allow(clippy::print_stdout)]

use std::time::Instant;

use plaudit_pyfiles::PyValue;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).ok_or("say which file")?;
    let start = Instant::now();
    let value = plaudit_pyfiles::read(file)?;
    let read = start.elapsed();
    let (mut arrays, mut sum) = (0, 0);
    touch(&value, &mut arrays, &mut sum);
    let touched = start.elapsed();
    println!("{} {} {arrays} {sum}", read.as_secs_f64(), touched.as_secs_f64());
    Ok(())
}

fn touch(value: &PyValue, arrays: &mut usize, sum: &mut u64) {
    match value {
        PyValue::List(items) | PyValue::Tuple(items) => {
            items.iter().for_each(|item| touch(item, arrays, sum))
        }
        PyValue::Dict(dict) => dict.iter().for_each(|(_, item)| touch(item, arrays, sum)),
        other => {
            let Some(array) = other.as_array() else { return };
            *arrays += 1;
            // Bytes of a row are summed narrowly, so that the CPU adds many at once.
            *sum += array
                .bytes()
                .chunks(128)
                .map(|row| u64::from(row.iter().map(|x| u16::from(*x)).sum::<u16>()))
                .sum::<u64>();
        }
    }
}
