//! The few protocol buffer messages that TensorBoard reads, encoded by hand.
//!
//! Scalars, histograms and images take the forms `simple_value`, `histo` and `image`, as every TensorBoard since
//! the first reads them, and as scripts built on `EventAccumulator.Scalars` expect; current ones turn them into
//! tensors while loading (`data_compat.py`). Text has no such form and is a tensor of strings with its plugin named.

use super::histogram::Histogram;

/// A message under construction. Fields are written in the order of their numbers, as protobuf itself does, and
/// fields that hold their default are left out.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(mut self, field: u32, value: u64) -> Self {
        if value != 0 {
            self.key(field, 0);
            self.raw_varint(value);
        }
        self
    }

    fn double(mut self, field: u32, value: f64) -> Self {
        if value.to_bits() != 0 {
            self.key(field, 1);
            self.0.extend(value.to_le_bytes());
        }
        self
    }

    /// A field of a `oneof`: present even when it is 0.
    fn float(mut self, field: u32, value: f32) -> Self {
        self.key(field, 5);
        self.0.extend(value.to_le_bytes());
        self
    }

    fn bytes(mut self, field: u32, value: &[u8]) -> Self {
        self.key(field, 2);
        self.raw_varint(value.len() as u64);
        self.0.extend(value);
        self
    }

    fn message(self, field: u32, value: Self) -> Self {
        self.bytes(field, &value.0)
    }

    fn doubles(self, field: u32, values: &[f64]) -> Self {
        if values.is_empty() {
            return self;
        }
        let packed: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.bytes(field, &packed)
    }

    fn key(&mut self, field: u32, wire_type: u32) {
        self.raw_varint(u64::from(field << 3 | wire_type));
    }

    fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

/// `Event { wall_time = 1, step = 2, <what> }`.
fn event(wall_secs: f64, step: u64) -> Message {
    Message::default().double(1, wall_secs).varint(2, step)
}

/// `Event { file_version = 3 }`: the first record of a file.
pub(super) fn file_version(wall_secs: f64) -> Vec<u8> {
    event(wall_secs, 0).bytes(3, b"brain.Event:2").0
}

/// `Event { session_log = 7 { status = 1: START } }`: what an earlier file says of this step and later ones is void.
pub(super) fn session_start(wall_secs: f64, step: u64) -> Vec<u8> {
    event(wall_secs, step).message(7, Message::default().varint(1, 1)).0
}

/// `Event { summary = 5 { value = 1, … } }`.
pub(super) fn summary(wall_secs: f64, step: u64, values: impl IntoIterator<Item = Value>) -> Vec<u8> {
    let all = values.into_iter().fold(Message::default(), |all, value| all.message(1, value.0));
    event(wall_secs, step).message(5, all).0
}

/// `Summary.Value { tag = 1, <what> }`.
pub(super) struct Value(Message);

fn tagged(tag: &str) -> Message {
    Message::default().bytes(1, tag.as_bytes())
}

impl Value {
    /// `simple_value = 2`.
    pub(super) fn scalar(tag: &str, value: f64) -> Self {
        Self(tagged(tag).float(2, value as f32))
    }

    /// `image = 4 { height = 1, width = 2, colorspace = 3, encoded_image_string = 4 }`.
    pub(super) fn image(tag: &str, height: u32, width: u32, png: &[u8]) -> Self {
        let size = Message::default().varint(1, u64::from(height)).varint(2, u64::from(width));
        let image = size.varint(3, channels(png)).bytes(4, png);
        Self(tagged(tag).message(4, image))
    }

    /// `histo = 5 { min = 1, max = 2, num = 3, sum = 4, sum_squares = 5, bucket_limit = 6, bucket = 7 }`.
    pub(super) fn histogram(tag: &str, histogram: &Histogram) -> Self {
        let Histogram { min, max, num, sum, sum_squares, limits, counts } = histogram;
        let range = Message::default().double(1, *min).double(2, *max);
        let moments = range.double(3, *num).double(4, *sum).double(5, *sum_squares);
        Self(tagged(tag).message(5, moments.doubles(6, limits).doubles(7, counts)))
    }

    /// `tensor = 8 { dtype = 1: STRING, tensor_shape = 2 { dim = 2 { size = 1 } }, string_val = 8 }`,
    /// `metadata = 9 { plugin_data = 1 { plugin_name = 1 } }`.
    pub(super) fn text(tag: &str, text: &str) -> Self {
        let shape = Message::default().message(2, Message::default().varint(1, 1));
        let tensor = Message::default().varint(1, 7).message(2, shape).bytes(8, text.as_bytes());
        let plugin = Message::default().bytes(1, b"text");
        Self(tagged(tag).message(8, tensor).message(9, Message::default().message(1, plugin)))
    }
}

/// Channels of an image, by the colour type in the header of its PNG.
fn channels(png: &[u8]) -> u64 {
    match png.get(25) {
        Some(0) => 1,
        Some(4) => 2,
        Some(6) => 4,
        _ => 3,
    }
}
