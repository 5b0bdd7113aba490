//! torch's format from before 1.6: five pickles in a row, then the bytes of all storages.
//!
//! Files of that age have it, and so does every tensor in a plain pickle, as a string of bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::buffer::Buffer;
use super::error::{ReadError, Result};
use super::limits::Meter;
use super::pickle::{self, Loaded, Machine, Node, Slot, Storage, StorageData, StorageId, freeze};
use super::torch_zip::storage_bytes;
use super::value::PyValue;

/// The magic number 0x1950a86a20f9469cfc6c as the first pickle of the stream has it.
const START: [u8; 15] = [0x80, 2, 0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, b'.'];
const VERSION: i64 = 1001;
/// The first three pickles as torch writes them on every machine that stores the low byte first: the magic number, the
/// version, and the sizes of C's types. They are in front of each tensor of a plain pickle, of which an episode has
/// hundreds, so they are compared as bytes.
const USUAL_HEAD: &[u8] = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\
\x80\x02}q\0(X\x10\0\0\0protocol_versionq\x01M\xe9\x03X\x0d\0\0\0little_endianq\x02\x88X\x0a\0\0\0type_sizes\
q\x03}q\x04(X\x05\0\0\0shortq\x05K\x02X\x03\0\0\0intq\x06K\x04X\x04\0\0\0longq\x07K\x04uu.";

/// Whether this is such a stream. The magic number alone is a pickle of a number.
pub(crate) fn is_start(bytes: &[u8]) -> bool {
    bytes.len() > START.len() && bytes.starts_with(&START)
}

/// All of a stream with one storage up to its elements: what a plain pickle holds for a tensor.
pub(crate) fn head(class: &str, len: usize) -> Vec<u8> {
    let mut head = START.to_vec();
    head.extend_from_slice(b"\x80\x02M\xe9\x03."); // 1001
    head.extend_from_slice(b"\x80\x02}(X\x10\0\0\0protocol_versionM\xe9\x03X\x0d\0\0\0little_endian");
    head.push(if cfg!(target_endian = "little") { 0x88 } else { 0x89 });
    head.extend_from_slice(
        b"X\x0a\0\0\0type_sizes}(X\x05\0\0\0shortK\x02X\x03\0\0\0intK\x04X\x04\0\0\0longK\x04uu.",
    );
    head.extend_from_slice(b"\x80\x02(X\x07\0\0\0storagectorch\n");
    head.extend_from_slice(class.as_bytes());
    head.extend_from_slice(b"\nX\x01\0\0\x000X\x03\0\0\0cpu\x8a\x08");
    head.extend_from_slice(&(len as u64).to_le_bytes());
    head.extend_from_slice(b"NtQ.\x80\x02]X\x01\0\0\x000a.");
    head.extend_from_slice(&(len as u64).to_le_bytes());
    head
}

/// Reads a whole file of this format.
pub(crate) fn read(stream: &Buffer, meter: &mut Meter) -> Result<PyValue> {
    let loaded = load(stream, meter, 0)?;
    freeze(&loaded, meter)
}

/// Reads the one storage that a stream inside a plain pickle holds.
pub(crate) fn storage(stream: &Buffer, meter: &mut Meter, nesting: usize) -> Result<Storage> {
    let loaded = load(stream, meter, nesting)?;
    match loaded.heap.get(loaded.root) {
        Some(Node::Storage(storage)) => Ok((**storage).clone()),
        _ => Err(ReadError::malformed(0, "one torch storage", loaded.heap.kind(loaded.root))),
    }
}

fn load(stream: &Buffer, meter: &mut Meter, nesting: usize) -> Result<Loaded> {
    let head = match stream.starts_with(USUAL_HEAD) {
        true if cfg!(target_endian = "little") => USUAL_HEAD.len(),
        _ => end_of_head(stream, meter, nesting)?,
    };
    let mut await_storage = |id: &StorageId<'_>, _: usize| Ok(awaited(id));
    let mut objects = Machine::new(stream, head, &mut await_storage, meter).nested(nesting).run()?;
    let keys = plain(stream, objects.end, meter, nesting)?;
    fill(stream, &keys, &mut objects)?;
    Ok(objects)
}

/// Checks the first three pickles, and returns where the fourth begins.
fn end_of_head(stream: &Buffer, meter: &mut Meter, nesting: usize) -> Result<usize> {
    if !stream.starts_with(&START) {
        let found = if stream.starts_with(b"PK") { "a zip archive" } else { "other bytes" };
        return Err(ReadError::malformed(0, "a stream of torch from before 1.6", found));
    }
    let version = plain(stream, START.len(), meter, nesting)?;
    if !matches!(version.root, Slot::Int(VERSION)) {
        return Err(ReadError::malformed(
            START.len(),
            "version 1001 of torch's old format",
            version.heap.kind(version.root),
        ));
    }
    let system = plain(stream, version.end, meter, nesting)?;
    check_byte_order(&system, version.end)?;
    Ok(system.end)
}

fn plain(stream: &Buffer, start: usize, meter: &mut Meter, nesting: usize) -> Result<Loaded> {
    Machine::new(stream, start, &mut pickle::no_storages, meter).nested(nesting).run()
}

fn check_byte_order(system: &Loaded, at: usize) -> Result<()> {
    let Some(Node::Dict(dict)) = system.heap.get(system.root) else {
        return Err(ReadError::malformed(at, "a dict about the machine", system.heap.kind(system.root)));
    };
    let little = dict.entries.iter().rev().find(|(key, _)| system.heap.str(*key) == Some("little_endian"));
    match little {
        None | Some((_, Slot::Bool(true))) if cfg!(target_endian = "little") => Ok(()),
        _ => {
            let hint = "load and save it once with a newer torch";
            Err(ReadError::unsupported(at, "an old torch file from a machine of the other byte order", hint))
        }
    }
}

/// A storage whose bytes come later; they are looked up by key and length.
fn awaited(id: &StorageId<'_>) -> Storage {
    Storage { dtype: id.dtype, data: StorageData::Awaited { key: id.key.into(), len: id.len } }
}

/// Gives each storage its bytes: for each key a count of elements, then the elements.
fn fill(stream: &Buffer, keys: &Loaded, objects: &mut Loaded) -> Result<()> {
    let Some(Node::List(list)) = keys.heap.get(keys.root) else {
        return Err(ReadError::malformed(objects.end, "a list of storage keys", keys.heap.kind(keys.root)));
    };
    let sizes = element_sizes(objects);
    let mut found: BTreeMap<&str, Buffer> = BTreeMap::new();
    let mut at = keys.end;
    for key in list {
        let Some(key) = keys.heap.str(*key) else {
            return Err(ReadError::malformed(objects.end, "the key of a storage", keys.heap.kind(*key)));
        };
        // Without a storage of that key there is no telling how long its elements are.
        let Some(size) = sizes.get(key) else {
            return Err(ReadError::malformed(objects.end, "a key that some storage has", "another"));
        };
        let (bytes, next) = block(stream, at, *size)?;
        if found.insert(key, bytes).is_some() {
            return Err(ReadError::malformed(at, "each storage once", "the same key again"));
        }
        at = next;
    }
    for (place, node) in objects.heap.nodes_mut() {
        if let Node::Storage(storage) = node
            && let StorageData::Awaited { key, len } = &storage.data
        {
            let Some(bytes) = found.get(&**key) else { continue };
            let id = StorageId { dtype: storage.dtype, key, len: *len };
            let Some(bytes) = storage_bytes(bytes, &id) else {
                let found = format!("{} bytes, too few for {len} elements", bytes.len());
                return Err(ReadError::malformed(place, "a storage of the size that the pickle says", found));
            };
            storage.data = StorageData::Known { bytes, swapped: false };
        }
    }
    Ok(())
}

/// Most streams have one storage, for which a tree is quicker than a table of hashes.
fn element_sizes(objects: &mut Loaded) -> BTreeMap<Arc<str>, usize> {
    let mut sizes = BTreeMap::new();
    for (_, node) in objects.heap.nodes_mut() {
        if let Node::Storage(storage) = node
            && let StorageData::Awaited { key, .. } = &storage.data
        {
            sizes.insert(key.clone(), storage.dtype.map_or(1, |dtype| dtype.size()));
        }
    }
    sizes
}

/// An element count of 64 bits and the elements.
fn block(stream: &Buffer, at: usize, size: usize) -> Result<(Buffer, usize)> {
    let left = stream.len() - at;
    let Some(count) = stream[at..].first_chunk::<8>() else { return Err(ReadError::ends(at, 8, left)) };
    let count = u64::from_le_bytes(*count);
    let start = at + 8;
    let end =
        usize::try_from(count).ok().and_then(|n| n.checked_mul(size)).and_then(|len| len.checked_add(start));
    match end.and_then(|end| Some((stream.slice(start..end)?, end))) {
        Some(found) => Ok(found),
        None => Err(ReadError::ends(at, count.saturating_mul(size as u64), left - 8)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;

    #[test]
    fn the_usual_head_is_what_reading_it_says() {
        let mut meter = Meter::new(Limits::default(), USUAL_HEAD.len());
        let end = end_of_head(&USUAL_HEAD.to_vec().into(), &mut meter, 0).unwrap();
        assert_eq!(end, USUAL_HEAD.len());
    }

    #[test]
    fn torch_writes_the_usual_head() {
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../data/tests/convert/episodes_torch/rank_0_env_0_episode_0_step_0_success.pkl"
        );
        let bytes = std::fs::read(file).unwrap();
        let streams = bytes.windows(START.len()).enumerate().filter(|(_, some)| *some == START);
        let usual = streams.map(|(at, _)| bytes[at..].starts_with(USUAL_HEAD)).collect::<Vec<_>>();
        assert!(usual.len() > 10 && usual.iter().all(|usual| *usual), "{usual:?}");
    }
}
