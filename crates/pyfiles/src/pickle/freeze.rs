//! From the objects of a pickle to a tree of values: where loops, depth and repetition are checked, and where
//! arrays get their final order.

use super::gather::{fortran_strides, gather, swap};
use super::globals::Global;
use super::heap::{ArrayNode, DictNode, Heap, Node, ObjectsNode, Slot, StorageData, TensorNode, kind};
use super::key::{Key, Keys};
use super::machine::Loaded;
use crate::array::{Array, byte_len, element_count};
use crate::error::{Problem, ReadError, Result};
use crate::limits::Meter;
use crate::value::{Library, ObjectArray, PyDict, PyValue};
use std::sync::Arc;

/// The value of a finished pickle.
pub(crate) fn freeze(loaded: &Loaded, meter: &mut Meter) -> Result<PyValue> {
    let states = (0..loaded.heap.len()).map(|_| State::New).collect();
    let mut freezer = Freezer { heap: &loaded.heap, meter, states };
    Ok(freezer.slot(loaded.root, 0)?.value)
}

struct Freezer<'a> {
    heap: &'a Heap,
    meter: &'a mut Meter,
    states: Vec<State>,
}

enum State {
    New,
    /// Being frozen: whoever meets it now is inside of it.
    Open,
    Done(Frozen),
}

#[derive(Clone)]
struct Frozen {
    value: PyValue,
    /// Levels of containers in it.
    height: usize,
    /// Values that a walk over it meets.
    visits: u64,
}

/// Height and visits of the items of a container.
#[derive(Default)]
struct Tally {
    height: usize,
    visits: u64,
}

impl Tally {
    fn add(&mut self, frozen: &Frozen) {
        self.height = self.height.max(frozen.height);
        self.visits = self.visits.saturating_add(frozen.visits);
    }
}

impl Freezer<'_> {
    fn slot(&mut self, slot: Slot, depth: usize) -> Result<Frozen> {
        let value = match slot {
            Slot::None => PyValue::None,
            Slot::Bool(boolean) => PyValue::Bool(boolean),
            Slot::Int(number) => PyValue::Int(number),
            Slot::Float(number) => PyValue::Float(number),
            Slot::Node(number) => return self.node(number, depth),
        };
        Ok(Frozen { value, height: 0, visits: 1 })
    }

    fn node(&mut self, number: u32, depth: usize) -> Result<Frozen> {
        let at = self.heap.place(number);
        match &self.states[number as usize] {
            State::New => {}
            State::Open => {
                let what = kind(self.heap.node(number)).trim_start_matches("a ");
                return Err(ReadError::new(at, Problem::Cycle { what }));
            }
            State::Done(frozen) => {
                let frozen = frozen.clone();
                self.check_depth(depth + frozen.height, at)?;
                return Ok(frozen);
            }
        }
        self.check_depth(depth, at)?;
        self.states[number as usize] = State::Open;
        let mut tally = Tally::default();
        let value = self.value(number, depth, &mut tally)?;
        let frozen = Frozen { value, height: tally.height + 1, visits: tally.visits.saturating_add(1) };
        if frozen.visits > self.meter.visits {
            let hint = "the file holds the same containers over and over, which would unfold without end";
            let limit = self.meter.visits;
            return Err(ReadError::new(at, Problem::Limit { what: "values in its containers", limit, hint }));
        }
        self.states[number as usize] = State::Done(frozen.clone());
        Ok(frozen)
    }

    fn check_depth(&self, depth: usize, at: usize) -> Result<()> {
        let limit = self.meter.limits.depth;
        if depth > limit {
            let (what, limit, hint) = ("levels of containers", limit as u64, "save flatter data");
            return Err(ReadError::new(at, Problem::Limit { what, limit, hint }));
        }
        Ok(())
    }

    fn value(&mut self, number: u32, depth: usize, tally: &mut Tally) -> Result<PyValue> {
        let heap = self.heap;
        let at = heap.place(number);
        Ok(match heap.node(number) {
            Node::BigInt(number) => PyValue::BigInt(number.clone()),
            Node::Complex(real, imaginary) => PyValue::Complex(*real, *imaginary),
            Node::Str(text) => PyValue::Str(text.clone()),
            Node::OldStr(bytes) => match String::from_utf8(bytes.to_vec()) {
                Ok(text) if text.is_ascii() => PyValue::Str(text.into()),
                _ => PyValue::Bytes(bytes.clone()),
            },
            Node::Bytes(bytes) => PyValue::Bytes(bytes.clone()),
            Node::List(items) => PyValue::List(self.items(items, depth, tally)?.into()),
            Node::Tuple(items) => PyValue::Tuple(self.items(items, depth, tally)?.into()),
            Node::Dict(dict) => self.dict(dict, depth, tally, at)?,
            Node::Set(items) => PyValue::Set(self.set(items, depth, tally, at)?.into()),
            Node::FrozenSet(items) => PyValue::FrozenSet(self.set(items, depth, tally, at)?.into()),
            Node::Global(Global::TorchDType(dtype)) => PyValue::DType(Library::Torch, *dtype),
            Node::DType(dtype) => match dtype.element {
                Some(dtype) => PyValue::DType(Library::Numpy, dtype),
                None => return Err(bare(at, "the dtype of Python objects")),
            },
            Node::Global(_) => return Err(bare(at, "a function or class")),
            Node::Blank => return Err(bare(at, "an array that never got its contents")),
            Node::Storage(_) => return Err(bare(at, "a bare torch storage")),
            Node::Array(array) => PyValue::Array(Arc::new(self.array(array, at)?)),
            Node::Scalar(array) => PyValue::Scalar(Arc::new(self.array(array, at)?)),
            Node::Objects(objects) => self.objects(objects, depth, tally, at)?,
            Node::Tensor(tensor) => PyValue::Tensor(Arc::new(self.tensor(tensor, at)?)),
            Node::Device(name) => PyValue::Device(name.clone()),
        })
    }

    fn items(&mut self, items: &[Slot], depth: usize, tally: &mut Tally) -> Result<Vec<PyValue>> {
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            let frozen = self.slot(*item, depth + 1)?;
            tally.add(&frozen);
            values.push(frozen.value);
        }
        Ok(values)
    }

    /// Python's rule: the first place and the last value of a key that comes twice.
    fn dict(&mut self, dict: &DictNode, depth: usize, tally: &mut Tally, at: usize) -> Result<PyValue> {
        let mut entries: Vec<(PyValue, PyValue)> = Vec::with_capacity(dict.entries.len());
        let mut keys = Keys::for_entries(dict.entries.len());
        for (key, value) in &dict.entries {
            let (key, value) = (self.slot(*key, depth + 1)?, self.slot(*value, depth + 1)?);
            tally.add(&key);
            tally.add(&value);
            match keys.place(self.key(&key, at)?) {
                place if place < entries.len() => entries[place].1 = value.value,
                _ => entries.push((key.value, value.value)),
            }
        }
        let mut frozen = PyDict::new(entries);
        if dict.ordered {
            frozen = frozen.into_ordered(self.attributes(dict, depth, tally)?);
        }
        Ok(PyValue::Dict(Arc::new(frozen)))
    }

    fn attributes(
        &mut self,
        dict: &DictNode,
        depth: usize,
        tally: &mut Tally,
    ) -> Result<Option<Arc<PyDict>>> {
        let Some(number) = dict.attributes else { return Ok(None) };
        let frozen = self.node(number, depth + 1)?;
        tally.add(&frozen);
        Ok(if let PyValue::Dict(dict) = frozen.value { Some(dict) } else { None })
    }

    fn set(&mut self, items: &[Slot], depth: usize, tally: &mut Tally, at: usize) -> Result<Vec<PyValue>> {
        let mut seen = std::collections::HashSet::with_capacity(items.len());
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            let frozen = self.slot(*item, depth + 1)?;
            tally.add(&frozen);
            if seen.insert(self.key(&frozen, at)?) {
                values.push(frozen.value);
            }
        }
        Ok(values)
    }

    fn key(&mut self, key: &Frozen, at: usize) -> Result<Key> {
        // A tuple of tuples may unfold, and one long text may be the key of every entry: both cost.
        let known = if key.visits <= 4096 { Key::weight(&key.value) } else { None };
        let Some(weight) = known else {
            return Err(ReadError::malformed(at, "a key that Python can hash", key.value.kind()));
        };
        self.meter.text(at, weight)?;
        Key::of(&key.value)
            .ok_or_else(|| ReadError::malformed(at, "a key that Python can hash", key.value.kind()))
    }

    fn array(&mut self, array: &ArrayNode, at: usize) -> Result<Array> {
        let mut data = array.data.clone();
        check_bytes(array, at)?;
        if array.fortran && array.shape.len() > 1 {
            self.meter.copy(at, data.len())?;
            let strides = fortran_strides(&array.shape);
            data = gather(&data, array.dtype.size(), 0, &array.shape, &strides).into();
        }
        if array.swapped && array.dtype.swap_size() > 1 {
            self.meter.copy(at, data.len())?;
            data = swap(&data, array.dtype.swap_size()).into();
        }
        Array::new(array.dtype, &array.shape, data)
            .map_err(|error| ReadError::malformed(at, "the bytes of an array", error.to_string()))
    }

    fn objects(
        &mut self,
        objects: &ObjectsNode,
        depth: usize,
        tally: &mut Tally,
        at: usize,
    ) -> Result<PyValue> {
        if element_count(&objects.shape) != Some(objects.items.len()) {
            let found = format!("{} objects for the shape {:?}", objects.items.len(), objects.shape);
            return Err(ReadError::malformed(at, "an object for each place of an array", found));
        }
        let items = self.items(&objects.items, depth, tally)?;
        Ok(PyValue::ObjectArray(Arc::new(ObjectArray { shape: objects.shape.clone(), items: items.into() })))
    }

    fn tensor(&mut self, tensor: &TensorNode, at: usize) -> Result<Array> {
        let (bytes, swapped) = match self.heap.node(tensor.storage) {
            Node::Storage(storage) => match &storage.data {
                StorageData::Known { bytes, swapped } => (bytes, *swapped),
                StorageData::Awaited { key, .. } => {
                    return Err(ReadError::malformed(
                        at,
                        "the bytes of a storage",
                        format!("none for key {key}"),
                    ));
                }
            },
            other => return Err(ReadError::malformed(at, "the storage of a tensor", kind(other))),
        };
        let size = tensor.dtype.size();
        let out_of_bounds = || {
            let found = format!(
                "offset {}, size {:?} and stride {:?} of {} in {} bytes",
                tensor.offset,
                tensor.shape,
                tensor.strides,
                tensor.dtype,
                bytes.len()
            );
            ReadError::malformed(at, "a tensor that lies inside its storage", found)
        };
        let len = byte_len(tensor.dtype, &tensor.shape).ok_or_else(out_of_bounds)?;
        let end = reach(tensor).and_then(|elements| elements.checked_mul(size)).ok_or_else(out_of_bounds)?;
        if end > bytes.len() {
            return Err(out_of_bounds());
        }
        let mut data = if len == 0 {
            Vec::new().into()
        } else if is_contiguous(tensor) {
            bytes.slice(tensor.offset * size..tensor.offset * size + len).ok_or_else(out_of_bounds)?
        } else {
            self.meter.copy(at, len)?;
            gather(bytes, size, tensor.offset, &tensor.shape, &tensor.strides).into()
        };
        if swapped && tensor.dtype.swap_size() > 1 {
            self.meter.copy(at, len)?;
            data = swap(&data, tensor.dtype.swap_size()).into();
        }
        Array::new(tensor.dtype, &tensor.shape, data).map_err(|_| out_of_bounds())
    }
}

/// One past the last element that a tensor touches.
fn reach(tensor: &TensorNode) -> Option<usize> {
    if tensor.shape.contains(&0) {
        return Some(0);
    }
    let mut last = tensor.offset;
    for (side, stride) in tensor.shape.iter().zip(&tensor.strides) {
        last = last.checked_add((side - 1).checked_mul(*stride)?)?;
    }
    last.checked_add(1)
}

fn is_contiguous(tensor: &TensorNode) -> bool {
    let mut expected = 1usize;
    for (side, stride) in tensor.shape.iter().zip(&tensor.strides).rev() {
        if *side != 1 && *stride != expected {
            return false;
        }
        expected = expected.saturating_mul(*side);
    }
    true
}

fn check_bytes(array: &ArrayNode, at: usize) -> Result<()> {
    if byte_len(array.dtype, &array.shape) == Some(array.data.len()) {
        return Ok(());
    }
    let found = format!("{} for {} of shape {:?}", array.data.len(), array.dtype, array.shape);
    Err(ReadError::malformed(at, "as many bytes as the shape of an array takes", found))
}

fn bare(at: usize, what: &'static str) -> ReadError {
    ReadError::unsupported(at, what, "save arrays, tensors and plain values")
}
