//! What describes an array: `.zarray` of zarr v2, `zarr.json` of v3.

use plaudit_pyfiles::DType;
use serde_json::Value;

use super::codecs::{Codec, Codecs};
use super::error::ZarrError;

/// Axes of the array with the most.
const MOST_AXES: usize = 8;
/// Filters and compressors one after the other.
const MOST_CODECS: usize = 8;

/// What is known of an array before a chunk is read.
#[derive(Clone, Debug)]
pub(super) struct Metadata {
    pub(super) shape: Vec<usize>,
    /// Of what one file holds.
    pub(super) chunk: Vec<usize>,
    pub(super) dtype: DType,
    /// One element, as bytes, where nothing was written.
    pub(super) fill: Vec<u8>,
    /// What comes before the numbers of a chunk in its name, and between them.
    pub(super) prefix: &'static str,
    pub(super) separator: String,
    pub(super) codecs: Codecs,
    /// Chunks within a file, where it holds several.
    pub(super) shard: Option<Shard>,
}

/// How several chunks lie in one file, with an index of them.
#[derive(Clone, Debug)]
pub(super) struct Shard {
    pub(super) chunk: Vec<usize>,
    pub(super) is_index_first: bool,
    pub(super) has_checksum: bool,
}

/// Words for what is wrong with one description.
struct Describe<'a> {
    key: &'a str,
}

impl Describe<'_> {
    fn wrong(&self, what: impl Into<String>) -> ZarrError {
        ZarrError::Description { key: self.key.into(), what: what.into() }
    }

    fn unsupported(&self, found: impl Into<String>) -> ZarrError {
        ZarrError::Unsupported { key: self.key.into(), found: found.into() }
    }

    fn sides(&self, value: &Value, name: &str) -> Result<Vec<usize>, ZarrError> {
        let side = |side: &Value| side.as_u64().and_then(|side| usize::try_from(side).ok());
        let sides: Option<Vec<usize>> = value.as_array().and_then(|sides| sides.iter().map(side).collect());
        let is_fitting = |sides: &Vec<usize>| (1..=MOST_AXES).contains(&sides.len());
        sides
            .filter(is_fitting)
            .ok_or_else(|| self.wrong(format!("`{name}` is {value}, not a shape of 1 to {MOST_AXES} axes")))
    }

    fn chunk(&self, value: &Value, name: &str, axes: usize) -> Result<Vec<usize>, ZarrError> {
        let chunk = self.sides(value, name)?;
        match chunk.len() == axes && !chunk.contains(&0) {
            true => Ok(chunk),
            false => Err(self.wrong(format!("`{name}` is {value}, for an array of {axes} axes"))),
        }
    }

    /// `<f4`, `|u1`, `>i8`: a type, and whether its bytes are turned around.
    fn numpy_type(&self, value: &Value) -> Result<(DType, bool), ZarrError> {
        let text = value.as_str().unwrap_or_default();
        let (order, name) = text.split_at_checked(1).unwrap_or_default();
        let dtype = match name {
            "b1" => DType::Bool,
            "u1" => DType::U8,
            "u2" => DType::U16,
            "u4" => DType::U32,
            "u8" => DType::U64,
            "i1" => DType::I8,
            "i2" => DType::I16,
            "i4" => DType::I32,
            "i8" => DType::I64,
            "f2" => DType::F16,
            "f4" => DType::F32,
            "f8" => DType::F64,
            _ => return Err(self.unsupported(format!("the type {value}"))),
        };
        match order {
            "<" | "|" => Ok((dtype, false)),
            ">" => Ok((dtype, true)),
            _ => Err(self.unsupported(format!("the type {value}"))),
        }
    }

    fn named_type(&self, value: &Value) -> Result<DType, ZarrError> {
        Ok(match value.as_str().unwrap_or_default() {
            "bool" => DType::Bool,
            "uint8" => DType::U8,
            "uint16" => DType::U16,
            "uint32" => DType::U32,
            "uint64" => DType::U64,
            "int8" => DType::I8,
            "int16" => DType::I16,
            "int32" => DType::I32,
            "int64" => DType::I64,
            "float16" => DType::F16,
            "float32" => DType::F32,
            "float64" => DType::F64,
            _ => return Err(self.unsupported(format!("the type {value}"))),
        })
    }

    /// One element of the value that stands for what was not written.
    fn fill(&self, value: &Value, dtype: DType) -> Result<Vec<u8>, ZarrError> {
        let number = match value {
            Value::Null => 0.0,
            Value::Bool(flag) => f64::from(u8::from(*flag)),
            Value::String(text) if text == "NaN" => f64::NAN,
            other => other.as_f64().ok_or_else(|| self.unsupported(format!("the fill value {other}")))?,
        };
        let unfit = || self.unsupported(format!("the fill value {value}"));
        let whole = number as i64;
        if !matches!(dtype, DType::F16 | DType::F32 | DType::F64) && whole as f64 != number {
            return Err(unfit());
        }
        Ok(match dtype {
            DType::F32 => (number as f32).to_le_bytes().to_vec(),
            DType::F64 => number.to_le_bytes().to_vec(),
            DType::F16 if number == 0.0 => vec![0; 2],
            DType::F16 => return Err(unfit()),
            other => whole.to_le_bytes()[..other.size()].to_vec(),
        })
    }

    /// A compressor or filter of v2.
    fn numcodec(&self, value: &Value) -> Result<Codec, ZarrError> {
        match value["id"].as_str().unwrap_or_default() {
            "blosc" => Ok(Codec::Blosc),
            "zstd" => Ok(Codec::Zstd),
            "zlib" => Ok(Codec::Zlib),
            "gzip" => Ok(Codec::Gzip),
            "lz4" => Ok(Codec::Lz4),
            "imagecodecs_jpegxl" => Err(self.unsupported("JPEG-XL (`imagecodecs_jpegxl`)")),
            "" => Err(self.unsupported(format!("{value}"))),
            other => Err(self.unsupported(format!("`{other}`"))),
        }
    }
}

/// `.zarray`.
pub(super) fn parse_v2(key: &str, text: &[u8]) -> Result<Metadata, ZarrError> {
    let describe = Describe { key };
    let value: Value = serde_json::from_slice(text).map_err(|error| describe.wrong(error.to_string()))?;
    if value["zarr_format"] != 2 {
        return Err(describe.wrong(format!("`zarr_format` is {}, not 2", value["zarr_format"])));
    }
    let shape = describe.sides(&value["shape"], "shape")?;
    let chunk = describe.chunk(&value["chunks"], "chunks", shape.len())?;
    let (dtype, is_swapped) = describe.numpy_type(&value["dtype"])?;
    if let Some(filter) = value["filters"].as_array().and_then(|filters| filters.first()) {
        return Err(describe.unsupported(format!("the filter {}", filter["id"])));
    }
    let axes = shape.len();
    let order = match value["order"].as_str() {
        Some("F") => (0..axes).rev().collect(),
        _ => (0..axes).collect(),
    };
    let codecs = match &value["compressor"] {
        Value::Null => Vec::new(),
        compressor => vec![describe.numcodec(compressor)?],
    };
    let fill = describe.fill(&value["fill_value"], dtype)?;
    let separator = value["dimension_separator"].as_str().unwrap_or(".").to_owned();
    let separator = checked_separator(&describe, separator)?;
    let codecs = Codecs { order, is_swapped, codecs };
    Ok(Metadata { shape, chunk, dtype, fill, prefix: "", separator, codecs, shard: None })
}

fn checked_separator(describe: &Describe<'_>, separator: String) -> Result<String, ZarrError> {
    match separator.as_str() {
        "." | "/" => Ok(separator),
        _ => Err(describe.wrong(format!("the separator of chunks is `{separator}`, not `.` or `/`"))),
    }
}

/// `zarr.json`.
pub(super) fn parse_v3(key: &str, text: &[u8]) -> Result<Metadata, ZarrError> {
    let describe = Describe { key };
    let value: Value = serde_json::from_slice(text).map_err(|error| describe.wrong(error.to_string()))?;
    if value["node_type"] != "array" {
        return Err(describe.wrong(format!("`node_type` is {}, not an array", value["node_type"])));
    }
    let shape = describe.sides(&value["shape"], "shape")?;
    let dtype = describe.named_type(&value["data_type"])?;
    if value["chunk_grid"]["name"] != "regular" {
        return Err(describe.unsupported(format!("the chunk grid {}", value["chunk_grid"]["name"])));
    }
    let sides = &value["chunk_grid"]["configuration"]["chunk_shape"];
    let chunk = describe.chunk(sides, "chunk_shape", shape.len())?;
    let encoding = &value["chunk_key_encoding"];
    let (prefix, default) = match encoding["name"].as_str() {
        Some("default") => ("c", "/"),
        Some("v2") => ("", "."),
        _ => return Err(describe.unsupported(format!("the names of chunks {}", encoding["name"]))),
    };
    let separator = encoding["configuration"]["separator"].as_str().unwrap_or(default).to_owned();
    let separator = checked_separator(&describe, separator)?;
    let fill = describe.fill(&value["fill_value"], dtype)?;
    let (codecs, shard) = match value["codecs"].as_array().map(Vec::as_slice) {
        Some([only]) if only["name"] == "sharding_indexed" => {
            let (codecs, shard) = sharding(&describe, &only["configuration"], &chunk)?;
            (codecs, Some(shard))
        }
        Some(list) => (codecs(&describe, list, shape.len())?, None),
        None => return Err(describe.wrong("it has no list of `codecs`")),
    };
    Ok(Metadata { shape, chunk, dtype, fill, prefix, separator, codecs, shard })
}

/// Chunks within a file: the outer ones are whole numbers of the inner ones.
fn sharding(describe: &Describe<'_>, value: &Value, outer: &[usize]) -> Result<(Codecs, Shard), ZarrError> {
    let chunk = describe.chunk(&value["chunk_shape"], "chunk_shape", outer.len())?;
    if outer.iter().zip(&chunk).any(|(outer, inner)| !outer.is_multiple_of(*inner)) {
        return Err(describe.wrong(format!("chunks of {chunk:?} do not fit into files of {outer:?}")));
    }
    let list = value["codecs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let codecs = codecs(describe, list, outer.len())?;
    let index: Vec<&str> = value["index_codecs"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|codec| codec["name"].as_str().unwrap_or_default())
        .collect();
    let has_checksum = match index[..] {
        ["bytes", "crc32c"] => true,
        ["bytes"] => false,
        _ => return Err(describe.unsupported(format!("an index of chunks with {}", index.join(", ")))),
    };
    let is_index_first = value["index_location"] == "start";
    Ok((codecs, Shard { chunk, is_index_first, has_checksum }))
}

/// Axes turned around, then bytes, then what makes them fewer.
fn codecs(describe: &Describe<'_>, list: &[Value], axes: usize) -> Result<Codecs, ZarrError> {
    let mut found = Codecs { order: (0..axes).collect(), is_swapped: false, codecs: Vec::new() };
    let mut has_bytes = false;
    if list.len() > MOST_CODECS {
        return Err(describe.unsupported(format!("{} codecs", list.len())));
    }
    for codec in list {
        let configuration = &codec["configuration"];
        match codec["name"].as_str().unwrap_or_default() {
            "transpose" if !has_bytes => {
                let order = describe.sides(&configuration["order"], "order")?;
                let mut sorted = order.clone();
                sorted.sort_unstable();
                if !sorted.iter().copied().eq(0..axes) {
                    return Err(describe.wrong(format!("`order` is {order:?}, for {axes} axes")));
                }
                found.order = order.iter().map(|axis| found.order[*axis]).collect();
            }
            "bytes" if !has_bytes => {
                has_bytes = true;
                found.is_swapped = configuration["endian"] == "big";
            }
            "blosc" if has_bytes => found.codecs.push(Codec::Blosc),
            "zstd" | "numcodecs.zstd" if has_bytes => found.codecs.push(Codec::Zstd),
            "gzip" if has_bytes => found.codecs.push(Codec::Gzip),
            "numcodecs.zlib" if has_bytes => found.codecs.push(Codec::Zlib),
            "numcodecs.lz4" if has_bytes => found.codecs.push(Codec::Lz4),
            "crc32c" if has_bytes => found.codecs.push(Codec::Crc32c),
            other => return Err(describe.unsupported(format!("the codec `{other}`"))),
        }
    }
    match has_bytes {
        true => Ok(found),
        false => Err(describe.wrong("its `codecs` have no `bytes`")),
    }
}
