//! The objects of a pickle while it is being read.
//!
//! A pickle may build loops and shared objects, so objects are numbered and refer to each other by number. The
//! heap is one flat vector: however objects are nested, dropping it recurses nowhere.

use std::sync::Arc;

use num_bigint::BigInt;

use super::globals::Global;
use crate::buffer::Buffer;
use crate::dtype::{DType, NumpyType};

/// A value on the stack or inside a container: small ones in place, others by number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slot {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Node(u32),
}

#[derive(Debug)]
pub(crate) enum Node {
    BigInt(Arc<BigInt>),
    Complex(f64, f64),
    Str(Arc<str>),
    /// Python 2's `str`: text or bytes, nobody knows which.
    OldStr(Buffer),
    Bytes(Buffer),
    List(Vec<Slot>),
    Tuple(Box<[Slot]>),
    Dict(Box<DictNode>),
    Set(Vec<Slot>),
    FrozenSet(Box<[Slot]>),
    Global(Global),
    DType(NumpyType),
    /// An array that was announced and awaits its state.
    Blank,
    Array(Box<ArrayNode>),
    Objects(Box<ObjectsNode>),
    Scalar(Box<ArrayNode>),
    Storage(Box<Storage>),
    Tensor(Box<TensorNode>),
    Device(Arc<str>),
}

#[derive(Debug, Default)]
pub(crate) struct DictNode {
    pub(crate) entries: Vec<(Slot, Slot)>,
    pub(crate) ordered: bool,
    /// A dict of attributes, by number.
    pub(crate) attributes: Option<u32>,
}

#[derive(Debug)]
pub(crate) struct ArrayNode {
    pub(crate) dtype: DType,
    pub(crate) swapped: bool,
    pub(crate) fortran: bool,
    pub(crate) shape: Box<[usize]>,
    pub(crate) data: Buffer,
}

#[derive(Debug)]
pub(crate) struct ObjectsNode {
    pub(crate) shape: Box<[usize]>,
    pub(crate) items: Vec<Slot>,
}

/// The memory that torch tensors are views of.
#[derive(Clone, Debug)]
pub(crate) struct Storage {
    /// `None` for an untyped storage.
    pub(crate) dtype: Option<DType>,
    pub(crate) data: StorageData,
}

#[derive(Clone, Debug)]
pub(crate) enum StorageData {
    Known {
        bytes: Buffer,
        swapped: bool,
    },
    /// Old torch streams put the bytes of all storages after the objects.
    Awaited {
        key: Arc<str>,
        /// In elements.
        len: usize,
    },
}

#[derive(Debug)]
pub(crate) struct TensorNode {
    pub(crate) storage: u32,
    pub(crate) dtype: DType,
    /// In elements, as the strides are.
    pub(crate) offset: usize,
    pub(crate) shape: Box<[usize]>,
    pub(crate) strides: Box<[usize]>,
}

#[derive(Debug, Default)]
pub(crate) struct Heap {
    nodes: Vec<Node>,
    places: Vec<usize>,
}

impl Heap {
    /// Keeps an object that the opcode at `at` made.
    pub(crate) fn add(&mut self, node: Node, at: usize) -> Slot {
        // The meter allows fewer objects than 32 bits can number.
        let number = self.nodes.len() as u32;
        self.nodes.push(node);
        self.places.push(at);
        Slot::Node(number)
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn node(&self, number: u32) -> &Node {
        &self.nodes[number as usize]
    }

    pub(crate) fn node_mut(&mut self, number: u32) -> &mut Node {
        &mut self.nodes[number as usize]
    }

    /// Where in the stream an object was made.
    pub(crate) fn place(&self, number: u32) -> usize {
        self.places[number as usize]
    }

    pub(crate) fn nodes_mut(&mut self) -> impl Iterator<Item = (usize, &mut Node)> {
        self.places.iter().copied().zip(&mut self.nodes)
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&Node> {
        if let Slot::Node(number) = slot { Some(self.node(number)) } else { None }
    }

    pub(crate) fn str(&self, slot: Slot) -> Option<&str> {
        match self.get(slot)? {
            Node::Str(text) => Some(text),
            Node::OldStr(bytes) => std::str::from_utf8(bytes).ok().filter(|text| text.is_ascii()),
            _ => None,
        }
    }

    pub(crate) fn bytes(&self, slot: Slot) -> Option<&Buffer> {
        if let Node::Bytes(bytes) | Node::OldStr(bytes) = self.get(slot)? { Some(bytes) } else { None }
    }

    pub(crate) fn tuple(&self, slot: Slot) -> Option<&[Slot]> {
        if let Node::Tuple(items) = self.get(slot)? { Some(items) } else { None }
    }

    pub(crate) fn global(&self, slot: Slot) -> Option<Global> {
        if let Node::Global(global) = self.get(slot)? { Some(*global) } else { None }
    }

    /// What Python would call it, for messages.
    pub(crate) fn kind(&self, slot: Slot) -> &'static str {
        match slot {
            Slot::None => "None",
            Slot::Bool(_) => "a bool",
            Slot::Int(_) => "an int",
            Slot::Float(_) => "a float",
            Slot::Node(number) => kind(self.node(number)),
        }
    }
}

pub(crate) fn kind(node: &Node) -> &'static str {
    match node {
        Node::BigInt(_) => "a huge int",
        Node::Complex(..) => "a complex number",
        Node::Str(_) | Node::OldStr(_) => "a str",
        Node::Bytes(_) => "bytes",
        Node::List(_) => "a list",
        Node::Tuple(_) => "a tuple",
        Node::Dict(_) => "a dict",
        Node::Set(_) | Node::FrozenSet(_) => "a set",
        Node::Global(_) => "a function or class",
        Node::DType(_) => "a numpy dtype",
        Node::Blank => "an array without state",
        Node::Array(_) => "a numpy array",
        Node::Objects(_) => "a numpy array of objects",
        Node::Scalar(_) => "a numpy scalar",
        Node::Storage(_) => "a torch storage",
        Node::Tensor(_) => "a torch tensor",
        Node::Device(_) => "a torch device",
    }
}
