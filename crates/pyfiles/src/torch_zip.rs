//! torch's `.pt`: a zip archive with a pickle and the bytes of each storage.

use super::buffer::Buffer;
use super::error::{ReadError, Result};
use super::limits::Meter;
use super::pickle::{Machine, Storage, StorageData, StorageId, freeze};
use super::value::PyValue;
use super::zip::Archive;

const PICKLE: &str = "data.pkl";

/// The folder of an archive that torch wrote: the one with a `data.pkl` in it.
pub(crate) fn folder(archive: &Archive) -> Option<&str> {
    archive.names().find_map(|name| {
        let folder = name.strip_suffix(PICKLE)?.strip_suffix('/')?;
        (!folder.contains('/')).then_some(folder)
    })
}

/// Reads an archive whose `folder` is known.
pub(crate) fn read(archive: &Archive, folder: &str, meter: &mut Meter) -> Result<PyValue> {
    let swapped = is_swapped(archive, folder)?;
    let name = format!("{folder}/{PICKLE}");
    let place = archive.find(&name).ok_or_else(|| ReadError::malformed(0, "a data.pkl", "none"))?;
    let pickle = archive.stored(place).map_err(|error| error.in_member(&name))?;
    let mut find = |id: &StorageId<'_>, at: usize| storage(archive, folder, swapped, id, at);
    let loaded = Machine::new(&pickle, 0, &mut find, meter).run();
    let value = loaded.and_then(|loaded| freeze(&loaded, meter));
    value.map_err(|error| error.in_member(&name))
}

fn storage(archive: &Archive, folder: &str, swapped: bool, id: &StorageId<'_>, at: usize) -> Result<Storage> {
    let name = format!("{folder}/data/{}", id.key);
    let Some(place) = archive.find(&name) else {
        return Err(ReadError::malformed(at, "a member with the storage's bytes", format!("no `{name}`")));
    };
    let member = archive.stored(place).map_err(|error| error.in_member(&name))?;
    let bytes = storage_bytes(&member, id).ok_or_else(|| {
        let found = format!("{} bytes in `{name}`, too few for {} elements", member.len(), id.len);
        ReadError::malformed(at, "a storage of the size that the pickle says", found)
    })?;
    Ok(Storage { dtype: id.dtype, data: StorageData::Known { bytes, swapped } })
}

/// As many bytes as the storage says it has.
pub(crate) fn storage_bytes(member: &Buffer, id: &StorageId<'_>) -> Option<Buffer> {
    let size = id.dtype.map_or(1, |dtype| dtype.size());
    member.slice(0..id.len.checked_mul(size)?)
}

/// torch from before 2.1 does not say; it only ran on little-endian machines then.
fn is_swapped(archive: &Archive, folder: &str) -> Result<bool> {
    let name = format!("{folder}/byteorder");
    let Some(place) = archive.find(&name) else { return Ok(cfg!(target_endian = "big")) };
    let order = archive.stored(place).map_err(|error| error.in_member(&name))?;
    match &*order {
        b"little" => Ok(cfg!(target_endian = "big")),
        b"big" => Ok(cfg!(target_endian = "little")),
        _ => Err(ReadError::malformed(0, "`little` or `big`", "another byte order").in_member(&name)),
    }
}
