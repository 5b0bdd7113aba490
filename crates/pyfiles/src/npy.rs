//! numpy's `.npy` and `.npz`.

use std::sync::Arc;

use super::array::{Array, byte_len};
use super::buffer::Buffer;
use super::error::{ReadError, Result};
use super::limits::Meter;
use super::npy_header::Header;
use super::pickle::{self, fortran_strides, gather, swap};
use super::value::{PyDict, PyValue};
use super::zip::Archive;

/// Reads a `.npy`: numbers as a view, Python objects through their pickle.
pub(crate) fn read(bytes: &Buffer, meter: &mut Meter) -> Result<PyValue> {
    let header = Header::read(bytes)?;
    let Some(dtype) = header.dtype.element else { return objects(bytes, &header, meter) };
    let cut = |wanted: Option<usize>| {
        ReadError::ends(header.end, wanted.map_or(u64::MAX, |n| n as u64), bytes.len() - header.end)
    };
    let len = byte_len(dtype, &header.shape).ok_or_else(|| cut(None))?;
    let end = header.end.checked_add(len).ok_or_else(|| cut(None))?;
    let mut data = bytes.slice(header.end..end).ok_or_else(|| cut(Some(len)))?;
    if header.fortran && header.shape.len() > 1 {
        meter.copy(header.end, len)?;
        data = gather(&data, dtype.size(), 0, &header.shape, &fortran_strides(&header.shape)).into();
    }
    if header.dtype.swapped && dtype.swap_size() > 1 {
        meter.copy(header.end, len)?;
        data = swap(&data, dtype.swap_size()).into();
    }
    match Array::new(dtype, &header.shape, data) {
        Ok(array) => Ok(PyValue::Array(Arc::new(array))),
        Err(error) => Err(ReadError::malformed(header.end, "the data of an array", error.to_string())),
    }
}

fn objects(bytes: &Buffer, header: &Header, meter: &mut Meter) -> Result<PyValue> {
    let value = pickle::read(bytes, header.end, meter)?;
    match &value {
        PyValue::ObjectArray(array) if array.shape() == header.shape => Ok(value),
        other => {
            let found = format!("a {} of another shape or kind", other.kind());
            Err(ReadError::malformed(header.end, "the array of objects that the header announces", found))
        }
    }
}

/// Reads a `.npz` as a dict from names to arrays.
pub(crate) fn read_archive(archive: &Archive, meter: &mut Meter) -> Result<PyValue> {
    let mut entries = Vec::new();
    for (place, name) in archive.names().enumerate() {
        let value = member(archive, place, name, meter).map_err(|error| error.in_member(name))?;
        entries.push((PyValue::from(name.strip_suffix(".npy").unwrap_or(name)), value));
    }
    Ok(PyValue::Dict(Arc::new(PyDict::new(entries))))
}

/// As numpy does: what is no array comes as bytes.
fn member(archive: &Archive, place: usize, name: &str, meter: &mut Meter) -> Result<PyValue> {
    let bytes = archive.unpacked(place, meter)?;
    if name.ends_with(".npy") { read(&bytes, meter) } else { Ok(PyValue::Bytes(bytes)) }
}
