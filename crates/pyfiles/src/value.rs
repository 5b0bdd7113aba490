//! What a Python file holds, as a typed tree.

use std::collections::HashMap;
use std::sync::Arc;

use num_bigint::BigInt;
use num_traits::ToPrimitive;

use super::array::Array;
use super::buffer::Buffer;
use super::dtype::DType;
use super::write::StoredTensor;

/// A value read from, or to be written to, a Python file.
///
/// Values are immutable and cheap to clone: containers, text and array bytes are shared. A value that was read
/// is a tree of bounded depth; it never contains itself.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PyValue {
    /// `None`
    None,
    /// `True` and `False`
    Bool(bool),
    /// An `int` of up to 64 bits.
    Int(i64),
    /// An `int` that does not fit [`Int`](Self::Int), such as the state of numpy's random generators.
    BigInt(Arc<BigInt>),
    /// A `float`.
    Float(f64),
    /// A `complex`: real and imaginary part.
    Complex(f64, f64),
    /// A `str`.
    Str(Arc<str>),
    /// `bytes` or a `bytearray`.
    Bytes(Buffer),
    /// A `list`.
    List(Arc<[PyValue]>),
    /// A `tuple`; also a `torch.Size`.
    Tuple(Arc<[PyValue]>),
    /// A `dict`, an `OrderedDict` or a `defaultdict`.
    Dict(Arc<PyDict>),
    /// A `set`.
    Set(Arc<[PyValue]>),
    /// A `frozenset`.
    FrozenSet(Arc<[PyValue]>),
    /// A numpy array of numbers, dates or text.
    Array(Arc<Array>),
    /// A numpy array of Python objects.
    ObjectArray(Arc<ObjectArray>),
    /// A numpy scalar such as `np.float32(1)` or `np.bool_(True)`: an array without axes.
    Scalar(Arc<Array>),
    /// A torch tensor or parameter.
    Tensor(Arc<Array>),
    /// A torch tensor whose bytes a [`PtWriter`](super::PtWriter) has already written. Never read from a file.
    Stored(Arc<StoredTensor>),
    /// An element type on its own, such as `np.dtype("f4")` or `torch.float32`.
    DType(Library, DType),
    /// A `torch.device`, such as `cuda:0`.
    Device(Arc<str>),
}

/// Which Python library an element type belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// numpy
    Numpy,
    /// torch
    Torch,
}

/// A numpy array of Python objects. `np.save` of a dict makes one without axes, around the dict.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectArray {
    pub(crate) shape: Box<[usize]>,
    pub(crate) items: Box<[PyValue]>,
}

impl ObjectArray {
    /// An array without axes around one object: what `np.save` makes of a dict.
    #[must_use]
    pub fn around(item: PyValue) -> Self {
        Self { shape: [].into(), items: [item].into() }
    }

    /// An array of objects in C order, or nothing where their number does not fit the shape.
    #[must_use]
    pub fn new(shape: &[usize], items: Vec<PyValue>) -> Option<Self> {
        let fits = super::array::element_count(shape) == Some(items.len());
        fits.then(|| Self { shape: shape.into(), items: items.into() })
    }

    /// The length of each axis.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The objects, rows first.
    #[must_use]
    pub fn items(&self) -> &[PyValue] {
        &self.items
    }
}

/// A Python dict: keys of any kind, in order.
#[derive(Clone, Debug, Default)]
pub struct PyDict {
    entries: Vec<(PyValue, PyValue)>,
    /// Index of the string keys, where there are many.
    places: Option<HashMap<Arc<str>, usize>>,
    ordered: bool,
    attributes: Option<Arc<PyDict>>,
}

/// From this size on a dict keeps an index of its string keys.
const MIN_INDEXED_LEN: usize = 17;

impl PyDict {
    /// A dict of these entries. Where a key occurs twice, [`get`](Self::get) finds the first.
    #[must_use]
    pub fn new(entries: Vec<(PyValue, PyValue)>) -> Self {
        let places = (entries.len() >= MIN_INDEXED_LEN).then(|| {
            let mut places = HashMap::with_capacity(entries.len());
            for (place, (key, _)) in entries.iter().enumerate() {
                if let PyValue::Str(key) = key {
                    places.entry(key.clone()).or_insert(place);
                }
            }
            places
        });
        Self { entries, places, ordered: false, attributes: None }
    }

    /// The same dict as a `collections.OrderedDict`, which is what torch's state dicts are; `attributes` are
    /// what Python code has set on it (`_metadata`).
    #[must_use]
    pub fn into_ordered(mut self, attributes: Option<Arc<PyDict>>) -> Self {
        self.ordered = true;
        self.attributes = attributes;
        self
    }

    /// Whether it is an `OrderedDict` in Python.
    #[must_use]
    pub fn is_ordered(&self) -> bool {
        self.ordered
    }

    /// Attributes that were set on an `OrderedDict`, such as `_metadata` of a state dict.
    #[must_use]
    pub fn attributes(&self) -> Option<&PyDict> {
        self.attributes.as_deref()
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The value under a string key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&PyValue> {
        let place = match &self.places {
            Some(places) => *places.get(key)?,
            None => self.entries.iter().position(|(k, _)| k.as_str() == Some(key))?,
        };
        Some(&self.entries[place].1)
    }

    /// All entries, in the order of the dict.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&PyValue, &PyValue)> {
        self.entries.iter().map(|(key, value)| (key, value))
    }
}

impl PartialEq for PyDict {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries && self.ordered == other.ordered && self.attributes == other.attributes
    }
}

impl PyValue {
    /// A dict with string keys.
    pub fn dict<K: AsRef<str>>(entries: impl IntoIterator<Item = (K, PyValue)>) -> Self {
        let entries = entries.into_iter().map(|(key, value)| (PyValue::from(key.as_ref()), value)).collect();
        Self::Dict(Arc::new(PyDict::new(entries)))
    }

    /// A list.
    pub fn list(items: impl IntoIterator<Item = PyValue>) -> Self {
        Self::List(items.into_iter().collect())
    }

    /// A tuple.
    pub fn tuple(items: impl IntoIterator<Item = PyValue>) -> Self {
        Self::Tuple(items.into_iter().collect())
    }

    /// What Python would call it, for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Bool(_) => "bool",
            Self::Int(_) | Self::BigInt(_) => "int",
            Self::Float(_) => "float",
            Self::Complex(..) => "complex",
            Self::Str(_) => "str",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Tuple(_) => "tuple",
            Self::Dict(_) => "dict",
            Self::Set(_) => "set",
            Self::FrozenSet(_) => "frozenset",
            Self::Array(_) => "numpy array",
            Self::ObjectArray(_) => "numpy array of objects",
            Self::Scalar(_) => "numpy scalar",
            Self::Tensor(_) | Self::Stored(_) => "torch tensor",
            Self::DType(Library::Numpy, _) => "numpy dtype",
            Self::DType(Library::Torch, _) => "torch dtype",
            Self::Device(_) => "torch device",
        }
    }

    /// The value under a string key of a dict.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&PyValue> {
        self.as_dict()?.get(key)
    }

    /// The dict.
    #[must_use]
    pub fn as_dict(&self) -> Option<&PyDict> {
        if let Self::Dict(dict) = self { Some(dict) } else { None }
    }

    /// The items of a list or tuple.
    #[must_use]
    pub fn as_items(&self) -> Option<&[PyValue]> {
        if let Self::List(items) | Self::Tuple(items) = self { Some(items) } else { None }
    }

    /// The text of a `str`.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Self::Str(text) = self { Some(text) } else { None }
    }

    /// The elements of an array, a tensor or a numpy scalar.
    #[must_use]
    pub fn as_array(&self) -> Option<&Array> {
        if let Self::Array(array) | Self::Scalar(array) | Self::Tensor(array) = self {
            Some(array)
        } else {
            None
        }
    }

    /// The one object in an array of one object, as Python's `.item()`: the dict of `np.save(dict)`.
    #[must_use]
    pub fn item(&self) -> Option<&PyValue> {
        match self {
            Self::ObjectArray(array) if array.items.len() == 1 => array.items.first(),
            _ => None,
        }
    }

    /// One number, as `float(x)` gives it: of an `int`, `float`, `bool`, or an array of one number.
    #[must_use]
    pub fn to_f64(&self) -> Option<f64> {
        match self {
            Self::Bool(boolean) => Some(f64::from(u8::from(*boolean))),
            Self::Int(number) => Some(*number as f64),
            Self::BigInt(number) => number.to_f64(),
            Self::Float(number) => Some(*number),
            other => other.as_array()?.single()?.to_f64()?.first().copied(),
        }
    }

    /// One whole number: of an `int`, a `bool`, or an array of one integer.
    #[must_use]
    pub fn to_i64(&self) -> Option<i64> {
        match self {
            Self::Bool(boolean) => Some(i64::from(*boolean)),
            Self::Int(number) => Some(*number),
            other => other.as_array()?.single()?.to_i64()?.first().copied(),
        }
    }

    /// One value as a boolean, as `bool(x)` gives it for numbers; nothing for what is no single number.
    #[must_use]
    pub fn to_bool(&self) -> Option<bool> {
        Some(self.to_f64()? != 0.0)
    }
}

impl From<bool> for PyValue {
    fn from(boolean: bool) -> Self {
        Self::Bool(boolean)
    }
}

impl From<i64> for PyValue {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<f64> for PyValue {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

impl From<&str> for PyValue {
    fn from(text: &str) -> Self {
        Self::Str(text.into())
    }
}

/// A numpy array; say [`PyValue::Tensor`] for a torch tensor.
impl From<Array> for PyValue {
    fn from(array: Array) -> Self {
        Self::Array(Arc::new(array))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_dicts_find_their_keys() {
        for size in [3, 100] {
            let dict = PyValue::dict((0..size).map(|i| (format!("key {i}"), PyValue::Int(i))));
            assert_eq!(dict.get("key 2"), Some(&PyValue::Int(2)));
            assert_eq!(dict.get("key 200"), None);
        }
    }

    #[test]
    fn one_number_is_one_number_in_any_dress() {
        let one: Arc<Array> = Arc::new(Array::from_slice(&[1, 1], &[1.0f32]).unwrap());
        let two: Arc<Array> = Arc::new(Array::from_slice(&[2], &[1.0f32, 0.0]).unwrap());
        for value in [PyValue::Int(1), PyValue::Bool(true), PyValue::Float(1.0), PyValue::Tensor(one)] {
            assert_eq!((value.to_f64(), value.to_bool()), (Some(1.0), Some(true)), "{}", value.kind());
        }
        assert_eq!(PyValue::Array(two).to_bool(), None);
        assert_eq!(PyValue::None.to_bool(), None);
    }

    #[test]
    fn values_are_small() {
        assert!(std::mem::size_of::<PyValue>() <= 48);
    }
}
