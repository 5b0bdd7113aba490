//! A graph of ONNX operations that grows node by node, and the model file around it.

use std::collections::{BTreeMap, BTreeSet};

use plaudit_nn::Weights;

use super::OnnxError;
use super::protobuf::Message;

/// The version of the file format.
pub const IR_VERSION: i64 = 8;
/// The version of the operations.
pub const OPSET: i64 = 18;

/// ONNX's numbers of element types.
const FLOAT: i64 = 1;
const UINT8: i64 = 2;
const INT64: i64 = 7;
/// A protocol buffer holds no more.
const LARGEST: u64 = (2 << 30) - (16 << 20);

/// An attribute of an operation.
pub(super) enum Attribute {
    Int(i64),
    Float(f32),
    Ints(Vec<i64>),
    Text(&'static str),
}

/// A graph; values are known by their names.
pub(super) struct Graph<'w> {
    weights: &'w Weights,
    nodes: Vec<Message>,
    initializers: Vec<Message>,
    /// Initializers that are there.
    known: BTreeSet<String>,
    inputs: Vec<Message>,
    outputs: Vec<Message>,
    values: usize,
    bytes: u64,
}

impl<'w> Graph<'w> {
    pub(super) fn new(weights: &'w Weights) -> Self {
        Self {
            weights,
            nodes: Vec::new(),
            initializers: Vec::new(),
            known: BTreeSet::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            values: 0,
            bytes: 0,
        }
    }

    /// An input of images as bytes, of any number and size.
    pub(super) fn images_input(&mut self, name: &str) {
        // An axis of the same name has the same length wherever it stands, and cameras differ in size.
        let camera = self.inputs.len();
        let side = |side: &str| Axis::Named(format!("{side}_{camera}"));
        let axes = [Axis::Named("batch".into()), side("height"), side("width"), Axis::Fixed(3)];
        self.inputs.push(value_info(name, UINT8, &axes));
    }

    /// An output of a row of numbers for each image, or of one number.
    pub(super) fn output(&mut self, name: &str, columns: Option<usize>) {
        let columns = columns.map(|columns| Axis::Fixed(columns as i64));
        let axes: Vec<Axis> = std::iter::once(Axis::Named("batch".into())).chain(columns).collect();
        self.outputs.push(value_info(name, FLOAT, &axes));
    }

    /// An operation. Gives the name of its result.
    pub(super) fn node(
        &mut self,
        operation: &str,
        inputs: &[&str],
        attributes: Vec<(&str, Attribute)>,
    ) -> String {
        self.values += 1;
        let result = format!("{}_{}", operation.to_lowercase(), self.values);
        self.node_named(operation, inputs, attributes, &result);
        result
    }

    /// An operation whose result has this name.
    pub(super) fn node_named(
        &mut self,
        operation: &str,
        inputs: &[&str],
        attributes: Vec<(&str, Attribute)>,
        result: &str,
    ) {
        let node = inputs.iter().fold(Message::default(), |node, input| node.text(1, input));
        let node = node.text(2, result).text(3, &format!("{result}/node")).text(4, operation);
        self.nodes.push(node.messages(5, attributes.into_iter().map(attribute)));
    }

    /// A tensor of the checkpoint, in the shape given. Gives its name.
    pub(super) fn weight(&mut self, name: &str, shape: &[usize]) -> Result<String, OnnxError> {
        if self.known.contains(name) {
            return Ok(name.into());
        }
        let expected = shape.iter().product();
        let numbers = self.weights.f32(name).filter(|numbers| numbers.len() == expected);
        let numbers = numbers.ok_or_else(|| OnnxError::Missing { name: name.into(), expected })?;
        self.bytes += 4 * expected as u64;
        if self.bytes > LARGEST {
            return Err(OnnxError::TooLarge { bytes: self.bytes });
        }
        Ok(self.floats(name, shape, &numbers))
    }

    /// A constant of floats.
    pub(super) fn floats(&mut self, name: &str, shape: &[usize], numbers: &[f32]) -> String {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.initializer(name, FLOAT, shape, &bytes)
    }

    /// A constant of whole numbers.
    pub(super) fn ints(&mut self, name: &str, numbers: &[i64]) -> String {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.initializer(name, INT64, &[numbers.len()], &bytes)
    }

    fn initializer(&mut self, name: &str, kind: i64, shape: &[usize], bytes: &[u8]) -> String {
        if self.known.insert(name.into()) {
            let tensor = shape.iter().fold(Message::default(), |tensor, axis| tensor.int(1, *axis as i64));
            self.initializers.push(tensor.int(2, kind).text(8, name).bytes(9, bytes));
        }
        name.into()
    }

    /// The file.
    pub(super) fn into_model(self, metadata: &BTreeMap<String, String>) -> Vec<u8> {
        let graph = Message::default()
            .messages(1, self.nodes)
            .text(2, "reward_model")
            .messages(5, self.initializers)
            .messages(11, self.inputs)
            .messages(12, self.outputs);
        let entry = |(key, value): (&String, &String)| Message::default().text(1, key).text(2, value);
        Message::default()
            .int(1, IR_VERSION)
            .text(2, "plaudit")
            .text(3, env!("CARGO_PKG_VERSION"))
            .message(7, graph)
            .message(8, Message::default().text(1, "").int(2, OPSET))
            .messages(14, metadata.iter().map(entry))
            .into_bytes()
    }
}

/// A length of an axis.
enum Axis {
    /// It may be any, the same wherever the name stands.
    Named(String),
    Fixed(i64),
}

fn value_info(name: &str, kind: i64, axes: &[Axis]) -> Message {
    let axis = |axis: &Axis| match axis {
        Axis::Named(name) => Message::default().text(2, name),
        Axis::Fixed(length) => Message::default().int(1, *length),
    };
    let shape = Message::default().messages(1, axes.iter().map(axis));
    let tensor = Message::default().int(1, kind).message(2, shape);
    Message::default().text(1, name).message(2, Message::default().message(1, tensor))
}

fn attribute((name, value): (&str, Attribute)) -> Message {
    let named = Message::default().text(1, name);
    match value {
        Attribute::Float(number) => named.float(2, number).int(20, 1),
        Attribute::Int(number) => named.int(3, number).int(20, 2),
        Attribute::Text(text) => named.text(4, text).int(20, 3),
        Attribute::Ints(numbers) => {
            numbers.into_iter().fold(named, |named, number| named.int(8, number)).int(20, 7)
        }
    }
}
