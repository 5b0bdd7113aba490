//! What the harmless functions of Python itself make of their arguments.

use super::globals::Global;
use super::heap::{DictNode, Node, Slot};
use super::machine::{Machine, shown};
use crate::error::{ReadError, Result};

impl Machine<'_> {
    /// The value that a call of `global` would have made. Nothing is called.
    pub(super) fn construct(&mut self, global: Global, arguments: &[Slot]) -> Result<Slot> {
        let node = match global {
            Global::NumpyReconstruct => self.blank_array(arguments)?,
            Global::NumpyScalar => self.numpy_scalar(arguments)?,
            Global::NumpyFromBuffer => self.numpy_from_buffer(arguments)?,
            Global::NumpyDType => self.numpy_dtype(arguments)?,
            Global::RebuildTensor(form) => self.tensor(form, arguments)?,
            Global::RebuildParameter => return self.parameter(arguments),
            Global::LoadFromBytes => self.storage_in_bytes(arguments)?,
            Global::TorchSize => self.torch_size(arguments)?,
            Global::TorchDevice => self.torch_device(arguments)?,
            Global::OrderedDict => self.ordered_dict(arguments)?,
            Global::DefaultDict | Global::Dict => self.plain_dict(arguments)?,
            Global::Encode => self.encode(arguments)?,
            Global::Set => Node::Set(self.items_of(arguments)?),
            Global::FrozenSet => Node::FrozenSet(self.items_of(arguments)?.into()),
            Global::Bytes | Global::ByteArray => self.bytes_of(arguments)?,
            Global::Complex => self.complex(arguments)?,
            Global::NumpyArray | Global::Storage(_) | Global::TorchDType(_) | Global::Factory => {
                let hint = "only arrays that numpy and torch pickle themselves are read";
                return Err(ReadError::unsupported(self.at, format!("a call of {global:?}"), hint));
            }
        };
        Ok(self.heap.add(node, self.at))
    }

    /// Gives an object the state that its class would take.
    pub(super) fn set_state(&mut self, target: Slot, state: Slot) -> Result<()> {
        let Slot::Node(number) = target else { return Err(self.no_state(target)) };
        match self.heap.node(number) {
            Node::DType(_) => self.dtype_state(number, state),
            Node::Blank => self.array_state(number, state),
            Node::Dict(dict) if dict.ordered => self.dict_attributes(number, state),
            _ => Err(self.no_state(target)),
        }
    }

    fn no_state(&self, target: Slot) -> ReadError {
        self.bad("an array, dtype or OrderedDict that takes state", self.heap.kind(target))
    }

    /// `_metadata` of a state dict.
    fn dict_attributes(&mut self, number: u32, state: Slot) -> Result<()> {
        let attributes = match (state, self.heap.get(state)) {
            (Slot::Node(attributes), Some(Node::Dict(_))) => attributes,
            _ => return Err(self.bad("a dict of attributes", self.heap.kind(state))),
        };
        if let Node::Dict(dict) = self.heap.node_mut(number) {
            dict.attributes = Some(attributes);
        }
        Ok(())
    }

    /// Without arguments, or with a list of pairs as Python 2 wrote it.
    fn ordered_dict(&mut self, arguments: &[Slot]) -> Result<Node> {
        let mut dict = DictNode { ordered: true, ..DictNode::default() };
        for pair in self.items_of(arguments)? {
            let pair = match self.heap.get(pair) {
                Some(Node::List(pair)) => pair.as_slice(),
                Some(Node::Tuple(pair)) => pair,
                _ => &[],
            };
            let &[key, value] = pair else {
                return Err(self.bad("pairs of keys and values", "something else"));
            };
            dict.entries.push((key, value));
        }
        Ok(Node::Dict(Box::new(dict)))
    }

    /// `dict()`, or `defaultdict(list)`; entries follow as instructions.
    fn plain_dict(&self, arguments: &[Slot]) -> Result<Node> {
        match arguments {
            [] | [Slot::None] => {}
            [factory] if self.heap.global(*factory).is_some() => {}
            _ => return Err(self.bad("an empty dict", "arguments")),
        }
        Ok(Node::Dict(Box::default()))
    }

    /// The items of the one list, tuple or set that a container is made from.
    fn items_of(&mut self, arguments: &[Slot]) -> Result<Vec<Slot>> {
        let [argument] = arguments else {
            return if arguments.is_empty() {
                Ok(Vec::new())
            } else {
                Err(self.bad("one list", "more arguments"))
            };
        };
        let items = match self.heap.get(*argument) {
            Some(Node::List(items) | Node::Set(items)) => items.as_slice(),
            Some(Node::Tuple(items) | Node::FrozenSet(items)) => items,
            _ => return Err(self.bad("a list of items", self.heap.kind(*argument))),
        };
        // A short instruction copies a long list: that counts.
        self.meter.objects(self.at, items.len())?;
        Ok(items.to_vec())
    }

    /// `_codecs.encode(text, "latin1")`: how protocols 0 to 2 write bytes.
    fn encode(&mut self, arguments: &[Slot]) -> Result<Node> {
        let (text, encoding) = match arguments {
            [text] => (*text, "utf-8"),
            [text, encoding] => (*text, self.heap.str(*encoding).unwrap_or("")),
            _ => return Err(self.bad("a text and an encoding", "other arguments")),
        };
        if !matches!(encoding, "latin1" | "latin-1" | "iso-8859-1") {
            return Err(self.bad("the encoding latin1", shown(encoding)));
        }
        self.latin1(text)
    }

    fn latin1(&mut self, text: Slot) -> Result<Node> {
        if let Some(Node::OldStr(bytes)) = self.heap.get(text) {
            return Ok(Node::Bytes(bytes.clone()));
        }
        let Some(text) = self.heap.str(text) else { return Err(self.bad("a str", self.heap.kind(text))) };
        self.meter.text(self.at, text.len())?;
        let bytes: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
        match bytes {
            Some(bytes) => Ok(Node::Bytes(bytes.into())),
            None => Err(self.bad("text in Latin-1", "a character beyond it")),
        }
    }

    /// `bytes()`, `bytearray(b"…")`, `bytearray("…", "latin-1")`.
    fn bytes_of(&mut self, arguments: &[Slot]) -> Result<Node> {
        match arguments {
            [] => Ok(Node::Bytes(Vec::new().into())),
            [bytes] => match self.heap.bytes(*bytes) {
                Some(bytes) => Ok(Node::Bytes(bytes.clone())),
                None => Err(self.bad("bytes", self.heap.kind(*bytes))),
            },
            _ => self.encode(arguments),
        }
    }

    fn complex(&self, arguments: &[Slot]) -> Result<Node> {
        match arguments {
            [Slot::Float(real), Slot::Float(imaginary)] => Ok(Node::Complex(*real, *imaginary)),
            _ => Err(self.bad("two floats", "other arguments")),
        }
    }

    /// Sizes, strides and shapes: a short tuple of numbers that are not negative.
    pub(super) fn sizes(&self, slot: Slot, what: &'static str) -> Result<Box<[usize]>> {
        let items = match self.heap.get(slot) {
            Some(Node::Tuple(items)) => items,
            _ => return Err(self.bad(what, self.heap.kind(slot))),
        };
        // numpy's own limit is 64 axes.
        if items.len() > 64 {
            return Err(self.bad(what, format!("{} axes", items.len())));
        }
        items.iter().map(|item| self.size(*item, what)).collect()
    }

    pub(super) fn size(&self, slot: Slot, what: &'static str) -> Result<usize> {
        match slot {
            Slot::Int(number) => usize::try_from(number).map_err(|_| self.bad(what, format!("{number}"))),
            other => Err(self.bad(what, self.heap.kind(other))),
        }
    }
}
