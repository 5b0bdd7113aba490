//! The safetensors format: a length, a JSON header, and bytes.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use plaudit_pyfiles::{Access, Array, AtomicFile, Buffer, DType, WriteError};

use super::{Weights, WeightsError};

/// A header beyond this is a file of another kind, or an attack on the reader's memory.
const LONGEST_HEADER: u64 = 100_000_000;

/// The format's names for element types.
const DTYPES: [(DType, &str); 15] = [
    (DType::Bool, "BOOL"),
    (DType::I8, "I8"),
    (DType::I16, "I16"),
    (DType::I32, "I32"),
    (DType::I64, "I64"),
    (DType::U8, "U8"),
    (DType::U16, "U16"),
    (DType::U32, "U32"),
    (DType::U64, "U64"),
    (DType::F16, "F16"),
    (DType::Bf16, "BF16"),
    (DType::F32, "F32"),
    (DType::F64, "F64"),
    (DType::F8E4M3, "F8_E4M3"),
    (DType::F8E5M2, "F8_E5M2"),
];

pub(super) fn is_named_so(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("safetensors"))
}

/// What is wrong with a file.
#[derive(Debug, PartialEq, Eq)]
enum Fault {
    /// It ends before this byte.
    CutShort { expected: u64 },
    /// What is wrong, and at which byte.
    At(u64, String),
}

pub(super) fn read(file: &Path) -> Result<Weights, WeightsError> {
    let bytes = Buffer::open(file, Access::Map)
        .map_err(|source| WeightsError::Io { file: file.to_owned(), source })?;
    parse(&bytes).map_err(|fault| match fault {
        Fault::At(at, problem) => WeightsError::Safetensors { file: file.to_owned(), at, problem },
        Fault::CutShort { expected } => {
            WeightsError::CutShort { file: file.to_owned(), length: bytes.len() as u64, expected }
        }
    })
}

fn parse(bytes: &Buffer) -> Result<Weights, Fault> {
    let length = bytes.first_chunk::<8>().map(|length| u64::from_le_bytes(*length));
    let length = length.ok_or(Fault::CutShort { expected: 8 })?;
    if length > LONGEST_HEADER {
        return Err(Fault::At(0, format!("a header of {length} bytes is announced")));
    }
    let data_start = length + 8;
    if data_start > bytes.len() as u64 {
        return Err(Fault::CutShort { expected: data_start });
    }
    let data_start = data_start as usize;
    let header: Map<String, Value> = serde_json::from_slice(&bytes[8..data_start]).map_err(|error| {
        Fault::At(8 + error.column() as u64, format!("the header is no JSON object: {error}"))
    })?;
    let mut weights = Weights::new();
    for (name, entry) in header {
        if name == "__metadata__" {
            weights.metadata = words(&entry);
        } else {
            let tensor = tensor(&entry, bytes, data_start).map_err(|fault| match fault {
                Fault::At(at, why) => Fault::At(at, format!("`{name}`: {why}")),
                Fault::CutShort { .. } => fault,
            })?;
            weights.tensors.insert(name, tensor);
        }
    }
    Ok(weights)
}

fn words(entry: &Value) -> BTreeMap<String, String> {
    let entries = entry.as_object().into_iter().flatten();
    entries.filter_map(|(key, word)| Some((key.clone(), word.as_str()?.to_owned()))).collect()
}

fn tensor(entry: &Value, bytes: &Buffer, data_start: usize) -> Result<Array, Fault> {
    let in_header = |why: &str| Fault::At(8, why.to_owned());
    let name = entry["dtype"].as_str().ok_or_else(|| in_header("no dtype"))?;
    let dtype = DTYPES.iter().find(|row| row.1 == name).map(|row| row.0);
    let dtype = dtype.ok_or_else(|| in_header(&format!("element type {name} is unknown")))?;
    let shape = numbers(&entry["shape"]).ok_or_else(|| in_header("no shape"))?;
    let offsets = numbers(&entry["data_offsets"]).ok_or_else(|| in_header("no data_offsets"))?;
    let [from, to] = offsets[..] else { return Err(in_header("data_offsets are not two numbers")) };
    let range = data_start.saturating_add(from)..data_start.saturating_add(to);
    if range.start > range.end {
        return Err(in_header("data_offsets are the wrong way round"));
    }
    let (at, expected) = (range.start as u64, range.end as u64);
    let data = bytes.slice(range).ok_or(Fault::CutShort { expected })?;
    Array::new(dtype, &shape, data).map_err(|error| Fault::At(at, error.to_string()))
}

fn numbers(list: &Value) -> Option<Vec<usize>> {
    list.as_array()?.iter().map(|number| usize::try_from(number.as_u64()?).ok()).collect()
}

pub(super) fn write(
    path: &Path,
    tensors: &IndexMap<String, Array>,
    metadata: &BTreeMap<String, String>,
) -> Result<(), WriteError> {
    let header = header(tensors, metadata)?;
    let save = || {
        let mut file = AtomicFile::create(path)?;
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(&header)?;
        for tensor in tensors.values() {
            file.write_all(tensor.bytes())?;
        }
        file.commit()
    };
    save().map_err(|source| WriteError::Io { file: path.to_owned(), source })
}

fn header(
    tensors: &IndexMap<String, Array>,
    metadata: &BTreeMap<String, String>,
) -> Result<Vec<u8>, WriteError> {
    let mut entries = Map::new();
    if !metadata.is_empty() {
        entries.insert("__metadata__".into(), json!(metadata));
    }
    let mut end = 0;
    for (name, tensor) in tensors {
        let from = end;
        end += tensor.bytes().len();
        let dtype =
            DTYPES.iter().find(|row| row.0 == tensor.dtype()).ok_or_else(|| WriteError::Unsupported {
                what: format!("a tensor of {}", tensor.dtype()),
                place: "into safetensors",
                hint: "convert it to a float or integer type first",
            })?;
        let entry = json!({"dtype": dtype.1, "shape": tensor.shape(), "data_offsets": [from, end]});
        entries.insert(name.clone(), entry);
    }
    let mut text = Value::Object(entries).to_string().into_bytes();
    // Tensors begin on a multiple of eight bytes, so that a mapped file can be used in place.
    text.resize(text.len().next_multiple_of(8), b' ');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: &[u8]) -> Buffer {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(data);
        bytes.into()
    }

    #[test]
    fn damage_is_named() {
        let tensor = r#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
        assert_eq!(parse(&file(tensor, &[0; 8])).unwrap().len(), 1);
        let cases = [
            (file(&tensor.replace("[2]", "[3]"), &[0; 8]), "needs 12, not 8 bytes"),
            (file(&tensor.replace("F32", "F31"), &[0; 8]), "element type F31 is unknown"),
            (file(&tensor.replace("[0,8]", "[8,0]"), &[0; 8]), "the wrong way round"),
            (file("{", &[]), "no JSON object"),
            (Buffer::from(&u64::MAX.to_le_bytes()[..]), "a header of 18446744073709551615 bytes"),
        ];
        for (bytes, expected) in cases {
            let Err(Fault::At(_, problem)) = parse(&bytes) else { panic!("{expected}") };
            assert!(problem.contains(expected), "{problem}");
        }
    }

    #[test]
    fn a_file_without_its_end_is_told_from_a_damaged_one() {
        let whole = file(r#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#, &[0; 8]);
        let header = whole.len() - 8;
        for (length, expected) in [(3, 8), (9, header), (header - 1, header), (whole.len() - 1, whole.len())]
        {
            let cut = parse(&Buffer::from(&whole[..length])).unwrap_err();
            assert_eq!(cut, Fault::CutShort { expected: expected as u64 }, "{length}");
        }
    }
}
