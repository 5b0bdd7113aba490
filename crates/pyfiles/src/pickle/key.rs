//! When two keys of a dict are the same key.

use std::collections::HashMap;
use std::sync::Arc;

use num_bigint::BigInt;

use crate::array::Array;
use crate::dtype::DType;
use crate::value::PyValue;

/// A value that Python can hash, under Python's equality: `1`, `1.0` and `True` are one key.
#[derive(PartialEq, Eq, Hash)]
pub(super) enum Key {
    None,
    Int(i64),
    BigInt(Arc<BigInt>),
    /// The bits of a float that is no whole number.
    Float(u64),
    Complex(u64, u64),
    Str(Arc<str>),
    Bytes(Box<[u8]>),
    Tuple(Box<[Key]>),
    Element(DType, Box<[u8]>),
    Device(Arc<str>),
}

impl Key {
    /// Nothing for what Python cannot hash.
    pub(super) fn of(value: &PyValue) -> Option<Self> {
        Some(match value {
            PyValue::None => Self::None,
            PyValue::Bool(boolean) => Self::Int(i64::from(*boolean)),
            PyValue::Int(number) => Self::Int(*number),
            PyValue::BigInt(number) => Self::BigInt(number.clone()),
            PyValue::Float(number) => Self::float(*number),
            PyValue::Complex(real, imaginary) => Self::Complex(real.to_bits(), imaginary.to_bits()),
            PyValue::Str(text) => Self::Str(text.clone()),
            PyValue::Bytes(bytes) => Self::Bytes((**bytes).into()),
            PyValue::Tuple(items) => Self::Tuple(items.iter().map(Self::of).collect::<Option<_>>()?),
            PyValue::Scalar(scalar) => Self::scalar(scalar),
            PyValue::DType(_, dtype) => Self::Element(*dtype, [].into()),
            PyValue::Device(name) => Self::Device(name.clone()),
            _ => return None,
        })
    }

    /// The bytes that hashing the key touches; nothing for what Python cannot hash.
    pub(super) fn weight(value: &PyValue) -> Option<usize> {
        match value {
            PyValue::Str(text) => Some(text.len()),
            PyValue::Bytes(bytes) => Some(bytes.len()),
            PyValue::BigInt(number) => usize::try_from(number.bits() / 8 + 1).ok(),
            PyValue::Scalar(scalar) => Some(scalar.bytes().len()),
            PyValue::Tuple(items) => {
                items.iter().try_fold(0usize, |sum, item| Some(sum.saturating_add(Self::weight(item)?)))
            }
            PyValue::List(_) | PyValue::Dict(_) | PyValue::Set(_) | PyValue::FrozenSet(_) => None,
            PyValue::Array(_) | PyValue::ObjectArray(_) | PyValue::Tensor(_) | PyValue::Stored(_) => None,
            _ => Some(8),
        }
    }

    fn float(number: f64) -> Self {
        let whole = number as i64;
        if whole as f64 == number && whole != i64::MAX {
            Self::Int(whole)
        } else {
            Self::Float(number.to_bits())
        }
    }

    fn scalar(scalar: &Array) -> Self {
        if let Some(&[whole]) = scalar.to_i64().as_deref() {
            return Self::Int(whole);
        }
        match scalar.to_f64().as_deref() {
            Some(&[number]) => Self::float(number),
            _ => Self::Element(scalar.dtype(), scalar.bytes().into()),
        }
    }
}

/// The keys of a dict that is being put together, each with its place.
pub(super) enum Keys {
    /// So few that comparing them is quicker than hashing.
    Few(Vec<Key>),
    Many(HashMap<Key, usize>),
}

const FEW: usize = 16;

impl Keys {
    /// For at most so many entries.
    pub(super) fn for_entries(count: usize) -> Self {
        if count <= FEW {
            Self::Few(Vec::with_capacity(count))
        } else {
            Self::Many(HashMap::with_capacity(count))
        }
    }

    /// The place of a key; a new one gets the next.
    pub(super) fn place(&mut self, key: Key) -> usize {
        match self {
            Self::Few(keys) => keys.iter().position(|known| *known == key).unwrap_or_else(|| {
                keys.push(key);
                keys.len() - 1
            }),
            Self::Many(places) => {
                let next = places.len();
                *places.entry(key).or_insert(next)
            }
        }
    }
}
