//! Writing numpy's `.npy` and `.npz`.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use super::pickler::{Pickler, Protocol, TensorStyle, Tensors, unsupported_value};
use super::{Fault, Step, save};
use crate::array::Array;
use crate::error::WriteError;
use crate::value::{ObjectArray, PyValue};
use crate::zip::ZipWriter;

/// Writes a `.npy`: an array, tensor or scalar as its numbers, anything else as `np.save` writes an object, to be
/// loaded with `np.load(path, allow_pickle=True).item()`.
///
/// # Errors
/// When the system refuses, or a value cannot be represented in numpy. Nothing is left under the name then.
pub fn write_npy(path: impl AsRef<Path>, value: &PyValue) -> Result<(), WriteError> {
    save(path.as_ref(), |file| match value.as_array() {
        Some(array) => {
            file.write_all(&array_header(array)?)?;
            Ok(file.write_all(array.bytes())?)
        }
        None => object(file, value),
    })
}

/// Writes a `.npz` of named values, each as [`write_npy`] would.
///
/// # Errors
/// When the system refuses, a value cannot be represented in numpy, or a name leads out of the archive or comes twice.
pub fn write_npz<'a>(
    path: impl AsRef<Path>,
    values: impl IntoIterator<Item = (&'a str, &'a PyValue)>,
) -> Result<(), WriteError> {
    save(path.as_ref(), |file| {
        let mut zip = ZipWriter::new(file);
        let mut seen = std::collections::HashSet::new();
        for (name, value) in values {
            if !seen.insert(name)
                || name.is_empty()
                || name.contains(['/', '\\', '\0', ':'])
                || name.len() > 1000
            {
                return Err(unsupported_value(
                    format!("the name `{name}`"),
                    "in a .npz file",
                    "use short names, each once",
                ));
            }
            add(&mut zip, &format!("{name}.npy"), value)
                .map_err(|fault| fault.within(|| Step::Key(name.into())))?;
        }
        zip.finish()?;
        Ok(())
    })
}

fn add<W: Write + std::io::Seek>(zip: &mut ZipWriter<W>, name: &str, value: &PyValue) -> Result<(), Fault> {
    match value.as_array() {
        Some(array) => zip.add(name, &[&array_header(array)?, array.bytes()])?,
        None => {
            let mut bytes = Vec::new();
            object(&mut bytes, value)?;
            zip.add(name, &[&bytes])?;
        }
    }
    Ok(())
}

fn object(mut out: impl Write, value: &PyValue) -> Result<(), Fault> {
    let array = match value {
        PyValue::ObjectArray(array) => array.clone(),
        other => Arc::new(ObjectArray::around(other.clone())),
    };
    out.write_all(&header("|O", array.shape()))?;
    let tensors = Tensors::Inline(TensorStyle::Torch);
    Pickler::new(out, Protocol::Four, tensors).dump(&PyValue::ObjectArray(array))
}

fn array_header(array: &Array) -> Result<Vec<u8>, Fault> {
    match array.dtype().descr() {
        Some(descr) => Ok(header(&descr, array.shape())),
        None => Err(unsupported_value(
            format!("an array of {}", array.dtype()),
            "in a .npy file",
            "write it as float32",
        )),
    }
}

/// The data begin at a multiple of 64 bytes, as numpy has it.
fn header(descr: &str, shape: &[usize]) -> Vec<u8> {
    let sides: String = shape.iter().map(|side| format!("{side}, ")).collect();
    // Python writes (3,) and (3, 4).
    let sides = if shape.len() == 1 { sides.trim_end() } else { sides.trim_end_matches(", ") };
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({sides}), }}");
    let len = (10 + text.len() + 1).next_multiple_of(64) - 10;
    text.extend(std::iter::repeat_n(' ', len - 1 - text.len()));
    text.push('\n');
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    // At most 64 axes of 20 digits: far below 64 KiB.
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    out
}
