//! The container: named columns of numbers in one mapped file, as safetensors lays them out.
//!
//! Eight bytes of header length, a JSON header, then the columns one after the other. Nothing in the header is
//! believed before it is checked against the size of the file, and nothing is copied.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use plaudit_pyfiles::plain_file;

use super::VERSION;
use super::error::{Damage, StoreError, reading};
use super::id::EpisodeId;

/// Longer headers are not ours.
const MAX_HEADER: u64 = 1 << 20;
const METADATA: &str = "__metadata__";
/// Columns begin at a multiple of this, so that floats are aligned in the map.
const ALIGN: usize = 64;

/// What the numbers of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    /// `f32`, little-endian.
    F32,
    /// Bytes.
    U8,
}

impl Kind {
    fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::U8 => 1,
        }
    }
}

/// One column of a file.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) shape: Vec<usize>,
    /// Where in the file.
    pub(super) range: Range<usize>,
}

#[derive(Serialize, Deserialize)]
struct TensorInfo {
    dtype: Kind,
    shape: Vec<usize>,
    data_offsets: [usize; 2],
}

/// A mapped file of columns. Cloning shares the map.
#[derive(Clone, Debug)]
pub(super) struct ColumnFile {
    map: Arc<Mmap>,
    /// In the order in which they lie.
    pub(super) columns: Vec<Column>,
    pub(super) metadata: HashMap<String, String>,
}

impl ColumnFile {
    /// Opens a file, and checks that it is what its header says. `format` is what the metadata must call it.
    pub(super) fn open(path: &Path, format: &str) -> Result<Self, StoreError> {
        if cfg!(target_endian = "big") {
            return Err(StoreError::BigEndian);
        }
        let map = map(path)?;
        let (columns, metadata) = parse(&map).map_err(|damage| damage.in_file(path))?;
        let found = metadata.get("format").map_or("", String::as_str);
        if found != format {
            let damage = Damage::header(format!("its format is `{found}`, not `{format}`"));
            return Err(damage.in_file(path));
        }
        match metadata.get("version").and_then(|version| version.parse().ok()) {
            Some(1..=VERSION) => Ok(Self { map: Arc::new(map), columns, metadata }),
            Some(found) => Err(StoreError::Version { path: path.into(), found }),
            None => Err(Damage::header("it has no version").in_file(path)),
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// A column that must be there.
    pub(super) fn need(&self, name: &str, kind: Kind, axes: usize) -> Result<&Column, Damage> {
        let column = self.find(name).ok_or_else(|| Damage::column(name, "is missing"))?;
        if column.kind != kind || column.shape.len() != axes {
            let why = format!("is {:?} {:?}, not {kind:?} of {axes} axes", column.kind, column.shape);
            return Err(Damage::column(name, why));
        }
        Ok(column)
    }

    pub(super) fn bytes(&self, range: &Range<usize>) -> &[u8] {
        &self.map[range.clone()]
    }

    /// The numbers of a range that [`parse`] found to be floats.
    pub(super) fn floats(&self, range: &Range<usize>) -> &[f32] {
        bytemuck::cast_slice(self.bytes(range))
    }

    /// Whether all bytes of the file have the hash that is its name.
    pub(super) fn check_hash(&self, expected: EpisodeId) -> Result<(), Damage> {
        let found = EpisodeId::of([&self.map[..]]);
        if found == expected { Ok(()) } else { Err(Damage::Hash { found }) }
    }
}

/// Maps a whole file for reading.
#[allow(unsafe_code)]
fn map(path: &Path) -> Result<Mmap, StoreError> {
    let file = plain_file::open(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => Damage::Missing.in_file(path),
        _ => reading(path)(source),
    })?;
    let metadata = file.metadata().map_err(reading(path))?;
    if metadata.len() < 8 {
        return Err(Damage::CutShort { found: metadata.len(), expected: 8 }.in_file(path));
    }
    // SAFETY: the map is read-only, and handed out only as slices that borrow from its owner. Files of a store are
    // never changed in place: they are written under another name and renamed. Should another program change one all
    // the same, any bits are valid bytes and valid floats, and no check made here is relied on for more than the
    // bounds of slices, which come from the length of the map; cutting it short ends the process, as docs/store.md says.
    unsafe { Mmap::map(&file) }.map_err(reading(path))
}

/// Reads the header and checks that the columns fill the file without gap, overlap or remainder.
fn parse(bytes: &[u8]) -> Result<(Vec<Column>, HashMap<String, String>), Damage> {
    let (start, header) = header(bytes)?;
    let mut metadata = HashMap::new();
    let mut columns = Vec::with_capacity(header.len());
    for (name, info) in header {
        let wrong = |error: serde_json::Error| Damage::header(format!("`{name}`: {error}"));
        if name == METADATA {
            metadata = serde_json::from_value(info).map_err(wrong)?;
        } else {
            let info: TensorInfo = serde_json::from_value(info).map_err(wrong)?;
            columns.push(column(name, info, start)?);
        }
    }
    columns.sort_by_key(|column| (column.range.start, column.range.end));
    let mut end = start;
    for column in &columns {
        if column.range.start != end {
            return Err(Damage::column(
                &column.name,
                format!("begins at byte {}, not {end}", column.range.start),
            ));
        }
        end = column.range.end;
    }
    let (found, expected) = (bytes.len() as u64, end as u64);
    match found {
        _ if found < expected => Err(Damage::CutShort { found, expected }),
        _ if found > expected => Err(Damage::TooLong { found, expected }),
        _ => Ok((columns, metadata)),
    }
}

/// Where the columns start, and the header's entries.
fn header(bytes: &[u8]) -> Result<(usize, Map<String, Value>), Damage> {
    let cut = |expected: u64| Damage::CutShort { found: bytes.len() as u64, expected };
    let (length, rest) = bytes.split_first_chunk::<8>().ok_or_else(|| cut(8))?;
    let length = u64::from_le_bytes(*length);
    if length > MAX_HEADER {
        return Err(Damage::header(format!("it claims to be {length} bytes long")));
    }
    let header = rest.get(..length as usize).ok_or_else(|| cut(8 + length))?;
    let header = serde_json::from_slice(header).map_err(|error| Damage::header(error.to_string()))?;
    Ok((8 + length as usize, header))
}

fn column(name: String, info: TensorInfo, start: usize) -> Result<Column, Damage> {
    let TensorInfo { dtype: kind, shape, data_offsets: [from, to] } = info;
    let wanted = shape.iter().try_fold(kind.size(), |bytes, side| bytes.checked_mul(*side));
    if to.checked_sub(from) != wanted || wanted.is_none() {
        return Err(Damage::column(
            &name,
            format!("has shape {shape:?}, which bytes {from}..{to} do not fill"),
        ));
    }
    let offsets = start.checked_add(from).zip(start.checked_add(to));
    let Some((from, to)) = offsets else { return Err(Damage::column(&name, "lies beyond any file")) };
    if from % kind.size() != 0 {
        return Err(Damage::column(&name, format!("begins at byte {from}, where floats are not aligned")));
    }
    Ok(Column { name, kind, shape, range: from..to })
}

/// A column to be written.
pub(super) struct NewColumn<'a> {
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
    pub(super) data: Data<'a>,
}

/// The numbers of a column to be written.
pub(super) enum Data<'a> {
    Floats(Vec<f32>),
    Bytes(Vec<u8>),
    Borrowed(&'a [u8]),
    /// So many bytes, which are written after everything else.
    Later(usize),
}

impl Data<'_> {
    fn kind(&self) -> Kind {
        if let Self::Floats(_) = self { Kind::F32 } else { Kind::U8 }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Floats(numbers) => bytemuck::cast_slice(numbers),
            Self::Bytes(bytes) => bytes,
            Self::Borrowed(bytes) => bytes,
            Self::Later(_) => &[],
        }
    }

    pub(super) fn len(&self) -> usize {
        if let Self::Later(len) = self { *len } else { self.bytes().len() }
    }
}

/// The start of a file: the length of the header, and the header. Columns of floats must come first, so that they are
/// aligned.
pub(super) fn head(metadata: &[(&str, String)], columns: &[NewColumn<'_>]) -> Vec<u8> {
    let metadata: Map<String, Value> =
        metadata.iter().map(|(key, text)| ((*key).into(), text.as_str().into())).collect();
    let mut header = Map::new();
    header.insert(METADATA.into(), metadata.into());
    let mut from = 0;
    for column in columns {
        let to = from + column.data.len();
        let info =
            TensorInfo { dtype: column.data.kind(), shape: column.shape.clone(), data_offsets: [from, to] };
        header.insert(column.name.clone(), serde_json::to_value(info).unwrap_or_default());
        from = to;
    }
    let mut text = Value::Object(header).to_string().into_bytes();
    text.resize((8 + text.len()).next_multiple_of(ALIGN) - 8, b' ');
    let mut head = (text.len() as u64).to_le_bytes().to_vec();
    head.extend(text);
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: usize) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.extend(vec![0; data]);
        bytes
    }

    fn refused(header: &str, data: usize) -> String {
        parse(&file(header, data)).unwrap_err().to_string()
    }

    #[test]
    fn hostile_headers_are_refused_by_name_and_cost_nothing() {
        let mut endless = u64::MAX.to_le_bytes().to_vec();
        endless.extend(b"{}");
        assert!(parse(&endless).unwrap_err().to_string().contains("claims to be"));
        assert!(parse(&9000u64.to_le_bytes()).unwrap_err().to_string().contains("8 of 9008 bytes"));
        assert!(refused("[1]", 0).contains("damaged header"));
        assert!(refused(&"[".repeat(5000), 0).contains("damaged header"));
        let one = |shape: &str, offsets: &str| {
            refused(&format!(r#"{{"x":{{"dtype":"U8","shape":{shape},"data_offsets":{offsets}}}}}"#), 4)
        };
        assert!(one("[18446744073709551615, 2]", "[0, 4]").contains("do not fill"));
        assert!(one("[4]", "[0, 99999999999]").contains("do not fill"));
        assert!(one("[99999999999]", "[0, 99999999999]").contains("cut short"));
        assert!(one("[4]", "[18446744073709551611, 18446744073709551615]").contains("beyond any file"));
        assert!(one("[2]", "[2, 4]").contains("begins at byte"));
        assert!(one("[2]", "[0, 2]").contains("2 bytes too long"));
        assert!(one("[-1]", "[0, 4]").contains("`x`"));
        let floats = r#"{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
        assert!(refused(floats, 4).contains("not aligned"));
    }

    #[test]
    fn what_is_written_is_read() {
        let columns = [
            NewColumn { name: "a".into(), shape: vec![2], data: Data::Floats(vec![1.0, 2.0]) },
            NewColumn { name: "é \"".into(), shape: vec![1, 3], data: Data::Borrowed(&[7, 8, 9]) },
        ];
        let mut bytes = head(&[("format", "x".into())], &columns);
        assert_eq!(bytes.len() % ALIGN, 0);
        bytes.extend(columns.iter().flat_map(|column| column.data.bytes().to_vec()));
        let (found, metadata) = parse(&bytes).unwrap();
        assert_eq!(metadata["format"], "x");
        assert_eq!(
            (found[1].name.as_str(), &found[1].shape[..], &bytes[found[1].range.clone()]),
            ("é \"", &[1, 3][..], &[7, 8, 9][..])
        );
    }
}
