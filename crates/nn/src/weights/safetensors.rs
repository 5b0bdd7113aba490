//! The safetensors format: a length, a JSON header, and bytes.
//!
//! Headers are parsed and validated by the `safetensors` crate: tensors that overlap, leave holes or do not fill their shape
//! are refused. The bytes stay in the mapped file.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use indexmap::IndexMap;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::{Map, Value, json};

use plaudit_pyfiles::{Access, Array, AtomicFile, Buffer, DType, WriteError};

use super::{Weights, WeightsError};

/// A header beyond this is a file of another kind, or an attack on the reader's memory.
const LONGEST_HEADER: u64 = 100_000_000;

/// The format's element types.
const DTYPES: [(DType, Dtype); 15] = [
    (DType::Bool, Dtype::BOOL),
    (DType::I8, Dtype::I8),
    (DType::I16, Dtype::I16),
    (DType::I32, Dtype::I32),
    (DType::I64, Dtype::I64),
    (DType::U8, Dtype::U8),
    (DType::U16, Dtype::U16),
    (DType::U32, Dtype::U32),
    (DType::U64, Dtype::U64),
    (DType::F16, Dtype::F16),
    (DType::Bf16, Dtype::BF16),
    (DType::F32, Dtype::F32),
    (DType::F64, Dtype::F64),
    (DType::F8E4M3, Dtype::F8_E4M3),
    (DType::F8E5M2, Dtype::F8_E5M2),
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
    // Copied before it is parsed: a mapped file might change meanwhile.
    let header = bytes[8..data_start].to_vec();
    let header: Metadata = serde_json::from_slice(&header).map_err(|error| {
        Fault::At(8 + error.column() as u64, format!("the header is none of safetensors: {error}"))
    })?;
    let (described, follow) = (header.data_len(), bytes.len() - data_start);
    if described > follow {
        return Err(Fault::CutShort { expected: data_start.saturating_add(described) as u64 });
    }
    if described < follow {
        let why = format!("{described} bytes of tensors are described, {follow} follow");
        return Err(Fault::At(data_start as u64, why));
    }
    let tensors = header.offset_keys().into_iter().filter_map(|name| {
        let info = header.info(&name)?;
        let tensor = tensor(info, bytes, data_start).map_err(|fault| match fault {
            Fault::At(at, why) => Fault::At(at, format!("`{name}`: {why}")),
            Fault::CutShort { .. } => fault,
        });
        Some(tensor.map(|tensor| (name, tensor)))
    });
    let tensors = tensors.collect::<Result<_, Fault>>()?;
    Ok(Weights { tensors, metadata: header.metadata().iter().flatten().map(own).collect() })
}

fn own((key, word): (&String, &String)) -> (String, String) {
    (key.clone(), word.clone())
}

fn tensor(info: &TensorInfo, bytes: &Buffer, data_start: usize) -> Result<Array, Fault> {
    let (from, to) = info.data_offsets;
    let (range, at) = (data_start + from..data_start + to, (data_start + from) as u64);
    let dtype = DTYPES.iter().find(|row| row.1 == info.dtype).map(|row| row.0);
    let dtype = dtype.ok_or_else(|| Fault::At(at, format!("element type {} is not read", info.dtype)))?;
    let expected = range.end as u64;
    let data = bytes.slice(range).ok_or(Fault::CutShort { expected })?;
    Array::new(dtype, &info.shape, data).map_err(|error| Fault::At(at, error.to_string()))
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
                key: name.clone(),
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
        let two = |second: &str| {
            let second = format!(r#","v":{{"dtype":"F32","shape":[2],"data_offsets":{second}}}}}"#);
            tensor.strip_suffix('}').unwrap().to_owned() + &second
        };
        assert_eq!(parse(&file(&two("[8,16]"), &[0; 16])).unwrap().len(), 2);
        let cases = [
            (file(tensor, &[0; 9]), "8 bytes of tensors are described, 9 follow"),
            (file(&two("[4,12]"), &[0; 12]), "invalid offset for tensor `v`"),
            (file(&two("[0,8]"), &[0; 8]), "invalid offset for tensor"),
            (file(&two("[12,20]"), &[0; 20]), "invalid offset for tensor `v`"),
            (file(&tensor.replace("[2]", "[3]"), &[0; 8]), "invalid shape"),
            (file(&tensor.replace("[2]", "[9223372036854775807,4]"), &[0; 8]), "overflow"),
            (file(&tensor.replace("F32", "F31"), &[0; 8]), "unknown variant `F31`"),
            (
                file(&tensor.replace("F32", "F8_E8M0").replace("[2]", "[8]"), &[0; 8]),
                "`w`: element type F8_E8M0 is not",
            ),
            (file(&tensor.replace("[0,8]", "[8,0]"), &[0; 8]), "invalid offset for tensor `w`"),
            (file("{", &[]), "the header is none of safetensors"),
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
