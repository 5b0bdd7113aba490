//! The element types of numpy arrays and torch tensors, and their names in both worlds.

use std::fmt;

/// The type of an array's elements. Bytes in memory are always in this machine's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)] // the plain ones are their own documentation
pub enum DType {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F16,
    /// Google's 16-bit float; only torch has it.
    Bf16,
    F32,
    F64,
    /// Two `f32`.
    C64,
    /// Two `f64`.
    C128,
    /// 8-bit float of torch (`float8_e4m3fn`).
    F8E4M3,
    /// 8-bit float of torch (`float8_e5m2`).
    F8E5M2,
    /// numpy's `datetime64`: an `i64` count since 1970; `i64::MIN` is "not a time".
    DateTime(TimeUnit),
    /// numpy's `timedelta64`: an `i64` count.
    TimeDelta(TimeUnit),
    /// numpy's `S`: this many bytes each, filled up with zeros.
    FixedBytes(u32),
    /// numpy's `U`: this many code points of four bytes each, filled up with zeros.
    FixedStr(u32),
}

/// The unit of a `datetime64`: a count of a base, such as `25s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimeUnit {
    /// One of numpy's: `Y M W D h m s ms us ns ps fs as`, or `generic`.
    pub base: &'static str,
    /// How many of it.
    pub count: u32,
}

const TIME_BASES: [&str; 14] =
    ["generic", "Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"];

impl TimeUnit {
    /// The unit with this base name, if numpy has it.
    #[must_use]
    pub fn new(base: &str, count: u32) -> Option<Self> {
        let base = TIME_BASES.iter().find(|known| **known == base)?;
        (count > 0).then_some(Self { base, count })
    }
}

impl fmt::Display for TimeUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.count == 1 { f.write_str(self.base) } else { write!(f, "{}{}", self.count, self.base) }
    }
}

/// Name in a pickle of numpy, class of its storage in torch, torch's own name.
const NAMES: [(DType, &str, &str, &str); 17] = [
    (DType::Bool, "b1", "BoolStorage", "bool"),
    (DType::I8, "i1", "CharStorage", "int8"),
    (DType::I16, "i2", "ShortStorage", "int16"),
    (DType::I32, "i4", "IntStorage", "int32"),
    (DType::I64, "i8", "LongStorage", "int64"),
    (DType::U8, "u1", "ByteStorage", "uint8"),
    (DType::U16, "u2", "", "uint16"),
    (DType::U32, "u4", "", "uint32"),
    (DType::U64, "u8", "", "uint64"),
    (DType::F16, "f2", "HalfStorage", "float16"),
    (DType::Bf16, "", "BFloat16Storage", "bfloat16"),
    (DType::F32, "f4", "FloatStorage", "float32"),
    (DType::F64, "f8", "DoubleStorage", "float64"),
    (DType::C64, "c8", "ComplexFloatStorage", "complex64"),
    (DType::C128, "c16", "ComplexDoubleStorage", "complex128"),
    (DType::F8E4M3, "", "", "float8_e4m3fn"),
    (DType::F8E5M2, "", "", "float8_e5m2"),
];

impl DType {
    /// Bytes per element.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Self::Bool | Self::I8 | Self::U8 | Self::F8E4M3 | Self::F8E5M2 => 1,
            Self::I16 | Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 | Self::C64 | Self::DateTime(_) | Self::TimeDelta(_) => 8,
            Self::C128 => 16,
            Self::FixedBytes(n) => n as usize,
            Self::FixedStr(n) => n as usize * 4,
        }
    }

    /// Bytes of the number that a change of byte order turns around.
    pub(crate) fn swap_size(self) -> usize {
        match self {
            Self::C64 => 4,
            Self::C128 => 8,
            Self::FixedBytes(_) => 1,
            Self::FixedStr(_) => 4,
            other => other.size(),
        }
    }

    /// numpy's name without the byte order (`f4`, `U5`, `M8`), if numpy has this type.
    #[must_use]
    pub fn numpy_name(self) -> Option<String> {
        Some(match self {
            Self::DateTime(_) => "M8".into(),
            Self::TimeDelta(_) => "m8".into(),
            Self::FixedBytes(n) => format!("S{n}"),
            Self::FixedStr(n) => format!("U{n}"),
            other => NAMES.iter().find(|row| row.0 == other && !row.1.is_empty())?.1.into(),
        })
    }

    /// numpy's mark for the byte order of this machine: `|` where order has no meaning.
    #[must_use]
    pub fn order_mark(self) -> char {
        match self.swap_size() {
            0 | 1 => '|',
            _ if cfg!(target_endian = "little") => '<',
            _ => '>',
        }
    }

    /// The name in the header of a `.npy` file: `<f4`, `|u1`, `<M8[ns]`.
    #[must_use]
    pub fn descr(self) -> Option<String> {
        let name = self.numpy_name()?;
        let mark = self.order_mark();
        Some(match self {
            Self::DateTime(unit) | Self::TimeDelta(unit) if unit.base != "generic" => {
                format!("{mark}{name}[{unit}]")
            }
            _ => format!("{mark}{name}"),
        })
    }

    /// The class of torch's typed storage (`FloatStorage`), if there is one.
    #[must_use]
    pub fn torch_storage(self) -> Option<&'static str> {
        NAMES.iter().find(|row| row.0 == self).map(|row| row.2).filter(|name| !name.is_empty())
    }

    /// torch's name (`float32`), if torch has this type.
    #[must_use]
    pub fn torch_name(self) -> Option<&'static str> {
        NAMES.iter().find(|row| row.0 == self).map(|row| row.3)
    }

    pub(crate) fn from_torch_storage(class: &str) -> Option<Self> {
        NAMES.iter().find(|row| !class.is_empty() && row.2 == class).map(|row| row.0)
    }

    pub(crate) fn from_torch_name(name: &str) -> Option<Self> {
        NAMES.iter().find(|row| row.3 == name).map(|row| row.0)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DateTime(unit) => write!(f, "datetime64[{unit}]"),
            Self::TimeDelta(unit) => write!(f, "timedelta64[{unit}]"),
            Self::FixedBytes(n) => write!(f, "S{n}"),
            Self::FixedStr(n) => write!(f, "U{n}"),
            plain => f.write_str(plain.torch_name().unwrap_or("?")),
        }
    }
}

/// A numpy type as a file has it: perhaps of Python objects, perhaps in the other byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NumpyType {
    /// `None` for arrays of Python objects.
    pub(crate) element: Option<DType>,
    pub(crate) swapped: bool,
}

/// What is wrong with a numpy type, in words for an error.
pub(crate) struct BadType(pub(crate) &'static str);

impl NumpyType {
    /// From `f4`, `<f4`, `|O`, `>M8[25s]`: the names in pickles and in `.npy` headers.
    pub(crate) fn parse(text: &str) -> Result<Self, BadType> {
        let (order, rest) = match text.as_bytes().first() {
            Some(b'<' | b'>' | b'|' | b'=') => text.split_at(1),
            _ => ("=", text),
        };
        let (name, unit) = match rest.split_once('[') {
            Some((name, unit)) => (name, Some(unit.strip_suffix(']').ok_or(UNKNOWN)?)),
            None => (rest, None),
        };
        let element = match name {
            "O" | "O4" | "O8" => None,
            "?" => Some(DType::Bool),
            _ => Some(parse_element(name, unit)?),
        };
        if unit.is_some() && !matches!(element, Some(DType::DateTime(_) | DType::TimeDelta(_))) {
            return Err(UNKNOWN);
        }
        Self { element, swapped: false }.with_order(order)
    }

    pub(crate) fn with_order(mut self, order: &str) -> Result<Self, BadType> {
        self.swapped = match order {
            "<" => cfg!(target_endian = "big"),
            ">" => cfg!(target_endian = "little"),
            "|" | "=" => false,
            _ => return Err(BadType("a byte order that is not one of < > | =")),
        };
        Ok(self)
    }

    /// Gives a `datetime64` or `timedelta64` its unit.
    pub(crate) fn with_unit(mut self, unit: TimeUnit) -> Self {
        self.element = match self.element {
            Some(DType::DateTime(_)) => Some(DType::DateTime(unit)),
            Some(DType::TimeDelta(_)) => Some(DType::TimeDelta(unit)),
            other => other,
        };
        self
    }
}

const UNKNOWN: BadType = BadType("a numpy type that is not known");

fn parse_element(name: &str, unit: Option<&str>) -> Result<DType, BadType> {
    if let Some(row) = NAMES.iter().find(|row| row.1 == name && !row.1.is_empty()) {
        return Ok(row.0);
    }
    let mut letters = name.chars();
    let kind = letters.next().ok_or(UNKNOWN)?;
    let size = letters.as_str();
    // Twice the factor of four of `U` must fit: such sizes are nonsense, and are kept far from overflow.
    let width = || size.parse::<u32>().ok().filter(|n| *n < 1 << 28).ok_or(UNKNOWN);
    match kind {
        'S' | 'a' => Ok(DType::FixedBytes(width()?)),
        'U' => Ok(DType::FixedStr(width()?)),
        'M' if size == "8" => Ok(DType::DateTime(parse_unit(unit)?)),
        'm' if size == "8" => Ok(DType::TimeDelta(parse_unit(unit)?)),
        'V' => Err(BadType("a structured or void numpy type")),
        'f' | 'c' if width().is_ok() => Err(BadType("a long double")),
        _ => Err(UNKNOWN),
    }
}

fn parse_unit(unit: Option<&str>) -> Result<TimeUnit, BadType> {
    let Some(unit) = unit else { return Ok(TimeUnit { base: "generic", count: 1 }) };
    let digits = unit.bytes().take_while(u8::is_ascii_digit).count();
    let count = if digits == 0 { Some(1) } else { unit[..digits].parse().ok() };
    count.and_then(|count| TimeUnit::new(&unit[digits..], count)).ok_or(BadType("an unknown unit of time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numpy_names_go_there_and_back() {
        for text in ["<f4", "|u1", "|b1", "<c16", "<U5", "|S3", "<M8[ns]", "<m8[25s]", "<M8"] {
            let parsed = NumpyType::parse(text).ok().unwrap();
            assert!(!parsed.swapped);
            assert_eq!(parsed.element.unwrap().descr().unwrap(), text);
        }
        assert!(NumpyType::parse(">f8").ok().unwrap().swapped);
        assert_eq!(NumpyType::parse("|O").ok().unwrap().element, None);
    }

    #[test]
    fn strange_names_are_refused() {
        for text in ["", "<", "f", "f16", "V8", "U99999999999", "f4[s]", "M8[", "M8[0s]", "é", "M8[é]", "x4"]
        {
            assert!(NumpyType::parse(text).is_err(), "{text}");
        }
    }
}
