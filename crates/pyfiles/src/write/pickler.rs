//! The writer of pickles: instructions, numbers, text, and the memo.

use std::collections::HashMap;
use std::io::Write;

use num_bigint::BigInt;

use super::pt::StoredTensor;
use super::{Fault, Step, step_of};
use crate::array::Array;
use crate::dtype::DType;
use crate::pickle::opcode as op;
use crate::value::PyValue;

/// How a pickle is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PickleStyle {
    /// The version of the format.
    pub protocol: Protocol,
    /// What becomes of [`PyValue::Tensor`].
    pub tensors: TensorStyle,
}

/// The version of the pickle format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// Protocol 2, which torch's own files use.
    Two,
    /// Protocol 4: Python 3.4 and newer, and the default of `pickle.dump` up to 3.13.
    #[default]
    Four,
    /// Protocol 5: Python 3.8 and newer.
    Five,
}

/// What becomes of torch tensors in a plain pickle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TensorStyle {
    /// They stay torch tensors: whoever loads the file needs torch.
    #[default]
    Torch,
    /// They become numpy arrays.
    Numpy,
}

/// Where the bytes of tensors go.
#[derive(Clone, Copy)]
pub(crate) enum Tensors<'a> {
    /// Into the pickle itself.
    Inline(TensorStyle),
    /// Into members of a torch archive: those written for arrays of the value, by address, and the length of
    /// each storage in bytes.
    Archive { places: &'a HashMap<usize, StoredTensor>, storages: &'a [u64], writer: u64 },
}

/// Values nested deeper than this are not written: Python could not read them either.
const MAX_DEPTH: usize = 500;
/// Text up to this length is written once and then referred to.
const MAX_MEMO_TEXT_LEN: usize = 64;
const MAX_MEMO_TEXTS: usize = 1 << 16;
/// How many items Python puts on the stack at once.
const BATCH: usize = 1000;

pub(crate) struct Pickler<'a, W> {
    pub(super) out: W,
    pub(super) protocol: Protocol,
    pub(super) tensors: Tensors<'a>,
    texts: HashMap<String, u32>,
    globals: HashMap<(&'static str, &'static str), u32>,
    pub(super) dtypes: HashMap<Option<DType>, u32>,
    places: u32,
}

impl<'a, W: Write> Pickler<'a, W> {
    pub(crate) fn new(out: W, protocol: Protocol, tensors: Tensors<'a>) -> Self {
        let (texts, globals, dtypes) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { out, protocol, tensors, texts, globals, dtypes, places: 0 }
    }

    /// Writes one whole pickle.
    pub(crate) fn dump(&mut self, value: &PyValue) -> Result<(), Fault> {
        let protocol = match self.protocol {
            Protocol::Two => 2,
            Protocol::Four => 4,
            Protocol::Five => 5,
        };
        self.put(&[op::PROTO, protocol])?;
        self.value(value, 0)?;
        self.put(&[op::STOP])
    }

    pub(super) fn value(&mut self, value: &PyValue, depth: usize) -> Result<(), Fault> {
        if depth > MAX_DEPTH {
            return Err(unsupported_value(
                "containers nested more than 500 deep",
                "in a pickle",
                "write flatter data",
            ));
        }
        match value {
            PyValue::None => self.put(&[op::NONE]),
            PyValue::Bool(boolean) => self.boolean(*boolean),
            PyValue::Int(number) => self.int(*number),
            PyValue::BigInt(number) => self.big_int(number),
            PyValue::Float(number) => self.float(*number),
            PyValue::Complex(real, imaginary) => self.complex(*real, *imaginary),
            PyValue::Str(text) => self.text(text),
            PyValue::Bytes(bytes) => self.bytes(&[bytes]),
            PyValue::List(items) => self.list(items, depth),
            PyValue::Tuple(items) => self.tuple(items, depth),
            PyValue::Dict(dict) => self.dict(dict, depth),
            PyValue::Set(items) => self.set(items, false, depth),
            PyValue::FrozenSet(items) => self.set(items, true, depth),
            PyValue::Array(array) => self.array(array),
            PyValue::ObjectArray(array) => self.object_array(array, depth),
            PyValue::Scalar(scalar) => self.scalar(scalar),
            PyValue::Tensor(tensor) => self.tensor(tensor),
            PyValue::Stored(tensor) => self.stored_tensor(tensor),
            PyValue::DType(library, dtype) => self.dtype_value(*library, *dtype),
            PyValue::Device(name) => self.device(name),
        }
    }

    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        Ok(self.out.write_all(bytes)?)
    }

    // ---- the memo

    /// Gives the object on top of the stack a place, and returns it.
    pub(super) fn memoize(&mut self) -> Result<u32, Fault> {
        let place = self.places;
        self.places += 1;
        match u8::try_from(place) {
            Ok(short) => self.put(&[op::BINPUT, short])?,
            Err(_) => self.op32(op::LONG_BINPUT, place)?,
        }
        Ok(place)
    }

    pub(super) fn memo_get(&mut self, place: u32) -> Result<(), Fault> {
        match u8::try_from(place) {
            Ok(short) => self.put(&[op::BINGET, short]),
            Err(_) => self.op32(op::LONG_BINGET, place),
        }
    }

    pub(super) fn global(&mut self, module: &'static str, name: &'static str) -> Result<(), Fault> {
        if let Some(place) = self.globals.get(&(module, name)) {
            return self.memo_get(*place);
        }
        if self.protocol >= Protocol::Four {
            self.text(module)?;
            self.text(name)?;
            self.put(&[op::STACK_GLOBAL])?;
        } else {
            self.put(format!("c{module}\n{name}\n").as_bytes())?;
        }
        let place = self.memoize()?;
        self.globals.insert((module, name), place);
        Ok(())
    }

    /// The module of Python's own types, whose name protocol 2 takes from Python 2.
    pub(super) fn builtin(&mut self, name: &'static str) -> Result<(), Fault> {
        let module = if self.protocol >= Protocol::Four { "builtins" } else { "__builtin__" };
        self.global(module, name)
    }

    // ---- simple values

    pub(super) fn boolean(&mut self, boolean: bool) -> Result<(), Fault> {
        self.put(&[if boolean { op::NEWTRUE } else { op::NEWFALSE }])
    }

    pub(super) fn int(&mut self, number: i64) -> Result<(), Fault> {
        if let Ok(short) = u8::try_from(number) {
            return self.put(&[op::BININT1, short]);
        }
        if let Ok(short) = u16::try_from(number) {
            self.put(&[op::BININT2])?;
            return self.put(&short.to_le_bytes());
        }
        if let Ok(medium) = i32::try_from(number) {
            return self.op32(op::BININT, medium as u32);
        }
        self.put(&[op::LONG1, 8])?;
        self.put(&number.to_le_bytes())
    }

    pub(super) fn size(&mut self, size: usize) -> Result<(), Fault> {
        match i64::try_from(size) {
            Ok(size) => self.int(size),
            Err(_) => Err(unsupported_value("a size beyond 63 bits", "in a pickle", "it cannot be right")),
        }
    }

    fn big_int(&mut self, number: &BigInt) -> Result<(), Fault> {
        let bytes = number.to_signed_bytes_le();
        match (u8::try_from(bytes.len()), i32::try_from(bytes.len())) {
            (Ok(len), _) => self.put(&[op::LONG1, len])?,
            (_, Ok(len)) => self.op32(op::LONG4, len as u32)?,
            _ => {
                return Err(unsupported_value(
                    "an int of more than 2 GiB",
                    "in a pickle",
                    "write it as bytes",
                ));
            }
        }
        self.put(&bytes)
    }

    pub(super) fn float(&mut self, number: f64) -> Result<(), Fault> {
        self.put(&[op::BINFLOAT])?;
        self.put(&number.to_be_bytes())
    }

    fn complex(&mut self, real: f64, imaginary: f64) -> Result<(), Fault> {
        self.builtin("complex")?;
        self.float(real)?;
        self.float(imaginary)?;
        self.put(&[op::TUPLE2, op::REDUCE])
    }

    pub(super) fn text(&mut self, text: &str) -> Result<(), Fault> {
        if let Some(place) = self.texts.get(text) {
            return self.memo_get(*place);
        }
        self.text_head(text.len())?;
        self.put(text.as_bytes())?;
        if text.len() <= MAX_MEMO_TEXT_LEN && self.texts.len() < MAX_MEMO_TEXTS {
            let place = self.memoize()?;
            self.texts.insert(text.to_owned(), place);
        }
        Ok(())
    }

    pub(super) fn text_head(&mut self, len: usize) -> Result<(), Fault> {
        match (u8::try_from(len), u32::try_from(len)) {
            (Ok(short), _) if self.protocol >= Protocol::Four => self.put(&[op::SHORT_BINUNICODE, short]),
            (_, Ok(len)) => self.op32(op::BINUNICODE, len),
            _ if self.protocol >= Protocol::Four => self.op64(op::BINUNICODE8, len as u64),
            _ => Err(unsupported_value(
                "more than 4 GiB of text",
                "in a pickle of protocol 2",
                "use protocol 4",
            )),
        }
    }

    /// A `bytes` object, in parts.
    pub(super) fn bytes(&mut self, parts: &[&[u8]]) -> Result<(), Fault> {
        if self.protocol < Protocol::Four {
            return self.latin1(parts);
        }
        let len: usize = parts.iter().map(|part| part.len()).sum();
        match (u8::try_from(len), u32::try_from(len)) {
            (Ok(short), _) => self.put(&[op::SHORT_BINBYTES, short])?,
            (_, Ok(len)) => self.op32(op::BINBYTES, len)?,
            _ => self.op64(op::BINBYTES8, len as u64)?,
        }
        parts.iter().try_for_each(|part| self.put(part))
    }

    /// Protocol 2 knows no bytes: they are text whose characters are the bytes.
    fn latin1(&mut self, parts: &[&[u8]]) -> Result<(), Fault> {
        self.global("_codecs", "encode")?;
        let len: usize =
            parts.iter().map(|part| part.iter().map(|byte| 1 + usize::from(*byte >> 7)).sum::<usize>()).sum();
        self.text_head(len)?;
        for chunk in parts.iter().flat_map(|part| part.chunks(1 << 16)) {
            let text: String = chunk.iter().copied().map(char::from).collect();
            self.put(text.as_bytes())?;
        }
        self.text("latin1")?;
        self.put(&[op::TUPLE2, op::REDUCE])
    }

    // ---- containers

    pub(super) fn list(&mut self, items: &[PyValue], depth: usize) -> Result<(), Fault> {
        self.put(&[op::EMPTY_LIST])?;
        for (start, batch) in (0..).step_by(BATCH).zip(items.chunks(BATCH)) {
            self.marked(batch, start, depth)?;
            self.put(&[op::APPENDS])?;
        }
        Ok(())
    }

    fn tuple(&mut self, items: &[PyValue], depth: usize) -> Result<(), Fault> {
        if items.is_empty() {
            return self.put(&[op::EMPTY_TUPLE]);
        }
        self.marked(items, 0, depth)?;
        self.put(&[op::TUPLE])
    }

    /// Items, the first of which is number `start` of its container.
    fn marked(&mut self, items: &[PyValue], start: usize, depth: usize) -> Result<(), Fault> {
        self.put(&[op::MARK])?;
        let mut item =
            |(at, item)| self.value(item, depth + 1).map_err(|fault| fault.within(|| Step::Index(at)));
        (start..).zip(items).try_for_each(&mut item)
    }

    fn dict(&mut self, dict: &crate::value::PyDict, depth: usize) -> Result<(), Fault> {
        if dict.is_ordered() {
            self.global("collections", "OrderedDict")?;
            self.put(&[op::EMPTY_TUPLE, op::REDUCE])?;
        } else {
            self.put(&[op::EMPTY_DICT])?;
        }
        let mut entries = dict.iter().peekable();
        while entries.peek().is_some() {
            self.put(&[op::MARK])?;
            for (key, value) in entries.by_ref().take(BATCH) {
                self.value(key, depth + 1)?;
                self.value(value, depth + 1).map_err(|fault| fault.within(|| step_of(key)))?;
            }
            self.put(&[op::SETITEMS])?;
        }
        if let Some(attributes) = dict.attributes() {
            self.dict(attributes, depth + 1)
                .map_err(|fault| fault.within(|| Step::Key("__dict__".into())))?;
            self.put(&[op::BUILD])?;
        }
        Ok(())
    }

    fn set(&mut self, items: &[PyValue], frozen: bool, depth: usize) -> Result<(), Fault> {
        if self.protocol < Protocol::Four {
            self.builtin(if frozen { "frozenset" } else { "set" })?;
            self.list(items, depth)?;
            return self.put(&[op::TUPLE1, op::REDUCE]);
        }
        if frozen {
            self.marked(items, 0, depth)?;
            return self.put(&[op::FROZENSET]);
        }
        self.put(&[op::EMPTY_SET])?;
        self.marked(items, 0, depth)?;
        self.put(&[op::ADDITEMS])
    }

    /// A tuple of sizes.
    pub(super) fn sizes(&mut self, sizes: impl IntoIterator<Item = usize>) -> Result<(), Fault> {
        self.put(&[op::MARK])?;
        sizes.into_iter().try_for_each(|size| self.size(size))?;
        self.put(&[op::TUPLE])
    }

    fn op32(&mut self, code: u8, number: u32) -> Result<(), Fault> {
        self.put(&[code])?;
        self.put(&number.to_le_bytes())
    }

    fn op64(&mut self, code: u8, number: u64) -> Result<(), Fault> {
        self.put(&[code])?;
        self.put(&number.to_le_bytes())
    }
}

pub(super) fn unsupported_value(what: impl Into<String>, place: &'static str, hint: &'static str) -> Fault {
    Fault::Unsupported { path: Vec::new(), what: what.into(), place, hint }
}

/// The strides of an array in C order, in elements.
pub(super) fn c_strides(array: &[usize]) -> Vec<usize> {
    let mut strides = vec![1usize; array.len()];
    for axis in (0..array.len().saturating_sub(1)).rev() {
        strides[axis] = strides[axis + 1].saturating_mul(array[axis + 1].max(1));
    }
    strides
}

/// An array's identity, to find it again while the value lives.
pub(super) fn address(array: &Array) -> usize {
    std::ptr::from_ref(array) as usize
}
