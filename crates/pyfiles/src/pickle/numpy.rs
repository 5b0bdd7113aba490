//! What numpy's functions make of their arguments: dtypes, arrays, scalars.

use super::globals::Global;
use super::heap::{ArrayNode, Node, ObjectsNode, Slot};
use super::machine::{Machine, shown};
use crate::dtype::{BadType, NumpyType, TimeUnit};
use crate::error::{ReadError, Result};

const SHAPE: &str = "the shape of an array";

impl Machine<'_> {
    /// `_reconstruct(ndarray, (0,), b"b")`: an empty array that state will fill.
    pub(super) fn blank_array(&self, arguments: &[Slot]) -> Result<Node> {
        match arguments.first().map(|class| self.heap.global(*class)) {
            Some(Some(Global::NumpyArray)) => Ok(Node::Blank),
            _ => Err(self.bad("numpy.ndarray", "another class of array")),
        }
    }

    /// `dtype("f4", False, True)`
    pub(super) fn numpy_dtype(&self, arguments: &[Slot]) -> Result<Node> {
        match arguments.first().map(|name| self.heap.str(*name)) {
            Some(Some(name)) => match NumpyType::parse(name) {
                Ok(dtype) => Ok(Node::DType(dtype)),
                Err(why) => Err(self.bad_type(&why, name)),
            },
            _ => Err(self.bad("the name of a numpy type", "something else")),
        }
    }

    fn bad_type(&self, why: &BadType, name: &str) -> ReadError {
        let hint = "save plain numbers, booleans, dates or text";
        ReadError::unsupported(self.at, format!("{} (`{}`)", why.0, shown(name)), hint)
    }

    /// `(3, "<", None, None, None, -1, -1, 0[, ({}, (b"ns", 1, 1, 1))])`
    pub(super) fn dtype_state(&mut self, number: u32, state: Slot) -> Result<()> {
        let Node::DType(dtype) = *self.heap.node(number) else { return Ok(()) };
        let Some([_, order, parts @ ..]) = self.heap.tuple(state) else {
            return Err(self.bad("the state of a numpy dtype", self.heap.kind(state)));
        };
        if parts.iter().take(3).any(|part| !matches!(part, Slot::None)) {
            let hint = "save each field as an array of its own";
            return Err(ReadError::unsupported(self.at, "a structured numpy type", hint));
        }
        let order = self.heap.str(*order).unwrap_or("");
        let mut dtype = match dtype.with_order(order) {
            Ok(dtype) => dtype,
            Err(why) => return Err(self.bad_type(&why, order)),
        };
        if let Some(metadata) = parts.get(6)
            && let Some(unit) = self.time_unit(*metadata)?
        {
            dtype = dtype.with_unit(unit);
        }
        *self.heap.node_mut(number) = Node::DType(dtype);
        Ok(())
    }

    /// `({}, (b"ns", 1, 1, 1))`: base, count, and two that old numpy used.
    fn time_unit(&self, metadata: Slot) -> Result<Option<TimeUnit>> {
        let Some([_, unit]) = self.heap.tuple(metadata) else { return Ok(None) };
        let Some([base, Slot::Int(count), ..]) = self.heap.tuple(*unit) else { return Ok(None) };
        let base = match (self.heap.str(*base), self.heap.bytes(*base)) {
            (Some(text), _) => text,
            (None, Some(bytes)) => std::str::from_utf8(bytes).unwrap_or(""),
            _ => "",
        };
        match u32::try_from(*count).ok().and_then(|count| TimeUnit::new(base, count)) {
            Some(unit) => Ok(Some(unit)),
            None => Err(self.bad("a unit of time", format!("{count} {}", shown(base)))),
        }
    }

    /// `([1,] shape, dtype, fortran, data)`
    pub(super) fn array_state(&mut self, number: u32, state: Slot) -> Result<()> {
        let (shape, dtype, fortran, data) = match self.heap.tuple(state) {
            Some(
                &[_, shape, dtype, Slot::Bool(fortran), data] | &[shape, dtype, Slot::Bool(fortran), data],
            ) => (shape, dtype, fortran, data),
            // Python 2 wrote the flag as a number.
            Some(&[_, shape, dtype, Slot::Int(fortran), data]) => (shape, dtype, fortran != 0, data),
            _ => return Err(self.bad("the state of a numpy array", self.heap.kind(state))),
        };
        let shape = self.sizes(shape, SHAPE)?;
        let node = self.array_of(self.dtype(dtype)?, shape, fortran, data)?;
        *self.heap.node_mut(number) = node;
        Ok(())
    }

    /// `_frombuffer(buffer, dtype, shape, order)` of protocol 5.
    pub(super) fn numpy_from_buffer(&mut self, arguments: &[Slot]) -> Result<Node> {
        let &[data, dtype, shape, order] = arguments else {
            return Err(self.bad("four arguments of _frombuffer", format!("{}", arguments.len())));
        };
        let fortran = match self.heap.str(order) {
            Some("C") => false,
            Some("F") => true,
            _ => return Err(self.bad("the order C or F", self.heap.kind(order))),
        };
        let shape = self.sizes(shape, SHAPE)?;
        self.array_of(self.dtype(dtype)?, shape, fortran, data)
    }

    fn array_of(&mut self, dtype: NumpyType, shape: Box<[usize]>, fortran: bool, data: Slot) -> Result<Node> {
        let Some(element) = dtype.element else { return self.objects_of(shape, data) };
        let Some(data) = self.heap.bytes(data).cloned() else {
            return Err(self.bad("the bytes of an array", self.heap.kind(data)));
        };
        let swapped = dtype.swapped;
        Ok(Node::Array(Box::new(ArrayNode { dtype: element, swapped, fortran, shape, data })))
    }

    /// numpy lists the objects rows first, whatever the order in memory.
    fn objects_of(&mut self, shape: Box<[usize]>, data: Slot) -> Result<Node> {
        let Some(Node::List(items)) = self.heap.get(data) else {
            return Err(self.bad("the list of an array of objects", self.heap.kind(data)));
        };
        self.meter.objects(self.at, items.len())?;
        let items = items.clone();
        Ok(Node::Objects(Box::new(ObjectsNode { shape, items })))
    }

    /// `scalar(dtype, bytes)`
    pub(super) fn numpy_scalar(&mut self, arguments: &[Slot]) -> Result<Node> {
        let &[dtype, data] = arguments else {
            return Err(self.bad("a dtype and bytes of a scalar", format!("{} arguments", arguments.len())));
        };
        match self.array_of(self.dtype(dtype)?, [].into(), false, data)? {
            Node::Array(array) => Ok(Node::Scalar(array)),
            _ => Err(self.bad("a plain numpy scalar", "a scalar around an object")),
        }
    }

    fn dtype(&self, slot: Slot) -> Result<NumpyType> {
        match self.heap.get(slot) {
            Some(Node::DType(dtype)) => Ok(*dtype),
            _ => Err(self.bad("a numpy dtype", self.heap.kind(slot))),
        }
    }
}
