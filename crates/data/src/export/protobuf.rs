//! The few protobuf messages of an MCAP file, and their descriptions.
//!
//! Viewers decode a channel by the `FileDescriptorSet` in its schema. `foxglove.CompressedImage` has Foxglove's own field
//! numbers; numbers have messages of ours.

/// Kinds of fields in a description (`FieldDescriptorProto.Type`).
const DOUBLE: u64 = 1;
const BOOL: u64 = 8;
const STRING: u64 = 9;
const MESSAGE: u64 = 11;
const BYTES: u64 = 12;
const INT64: u64 = 3;
const INT32: u64 = 5;
/// Whether a field repeats (`FieldDescriptorProto.Label`).
const ONE: u64 = 1;
const MANY: u64 = 3;

const TIMESTAMP: &str = ".google.protobuf.Timestamp";

/// A message in the making.
#[derive(Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    pub(super) fn bytes(self) -> Vec<u8> {
        self.0
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    fn data(mut self, field: u64, value: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    fn message(self, field: u64, value: Message) -> Self {
        self.data(field, &value.0)
    }

    fn double(mut self, field: u64, value: f64) -> Self {
        self.varint(field << 3 | 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    /// A message that begins with its time, in nanoseconds.
    fn at(nanos: u64) -> Self {
        let time = Self::default().number(1, nanos / 1_000_000_000).number(2, nanos % 1_000_000_000);
        Self::default().message(1, time)
    }
}

/// An encoded image.
pub(super) fn image(nanos: u64, camera: &str, format: &str, data: &[u8]) -> Vec<u8> {
    Message::at(nanos).data(2, data).data(3, format.as_bytes()).data(4, camera.as_bytes()).bytes()
}

/// One number.
pub(super) fn scalar(nanos: u64, value: f64) -> Vec<u8> {
    Message::at(nanos).double(2, value).bytes()
}

/// Yes or no.
pub(super) fn flag(nanos: u64, value: bool) -> Vec<u8> {
    Message::at(nanos).number(2, u64::from(value)).bytes()
}

/// Several numbers, packed.
pub(super) fn vector(nanos: u64, values: &[f32]) -> Vec<u8> {
    let packed: Vec<u8> = values.iter().flat_map(|value| f64::from(*value).to_le_bytes()).collect();
    Message::at(nanos).data(2, &packed).bytes()
}

/// Where something is, and how it is turned (x, y, z, w), in a frame of reference.
pub(super) fn pose(nanos: u64, frame_id: &str, position: [f64; 3], rotation: [f64; 4]) -> Vec<u8> {
    let numbers = |numbers: &[f64]| {
        let fields = (1..).zip(numbers);
        fields.fold(Message::default(), |message, (field, number)| message.double(field, *number))
    };
    let pose = Message::default().message(1, numbers(&position)).message(2, numbers(&rotation));
    Message::at(nanos).data(2, frame_id.as_bytes()).message(3, pose).bytes()
}

/// A field of a message: name, number, repetition, kind. A field that is a message names it.
type Field = (&'static str, u64, u64, u64, Option<&'static str>);

/// The name of a message and its fields after the time, and other messages that these are of.
pub(super) struct Schema {
    package: &'static str,
    name: &'static str,
    fields: &'static [Field],
    others: &'static [(&'static str, &'static [Field])],
}

pub(super) const IMAGE: Schema = Schema {
    package: "foxglove",
    name: "CompressedImage",
    fields: &[
        ("data", 2, ONE, BYTES, None),
        ("format", 3, ONE, STRING, None),
        ("frame_id", 4, ONE, STRING, None),
    ],
    others: &[],
};
pub(super) const SCALAR: Schema = own("Scalar", &[("value", 2, ONE, DOUBLE, None)]);
pub(super) const FLAG: Schema = own("Flag", &[("value", 2, ONE, BOOL, None)]);
pub(super) const VECTOR: Schema = own("Vector", &[("values", 2, MANY, DOUBLE, None)]);
pub(super) const POSE: Schema = Schema {
    package: "foxglove",
    name: "PoseInFrame",
    fields: &[("frame_id", 2, ONE, STRING, None), ("pose", 3, ONE, MESSAGE, Some(".foxglove.Pose"))],
    others: &[
        (
            "Pose",
            &[
                ("position", 1, ONE, MESSAGE, Some(".foxglove.Vector3")),
                ("orientation", 2, ONE, MESSAGE, Some(".foxglove.Quaternion")),
            ],
        ),
        ("Vector3", &[("x", 1, ONE, DOUBLE, None), ("y", 2, ONE, DOUBLE, None), ("z", 3, ONE, DOUBLE, None)]),
        (
            "Quaternion",
            &[
                ("x", 1, ONE, DOUBLE, None),
                ("y", 2, ONE, DOUBLE, None),
                ("z", 3, ONE, DOUBLE, None),
                ("w", 4, ONE, DOUBLE, None),
            ],
        ),
    ],
};

const fn own(name: &'static str, fields: &'static [Field]) -> Schema {
    Schema { package: "plaudit", name, fields, others: &[] }
}

impl Schema {
    /// As channels name it.
    pub(super) fn full_name(&self) -> String {
        format!("{}.{}", self.package, self.name)
    }

    /// Its `FileDescriptorSet`, with the file of `Timestamp` that it needs.
    pub(super) fn descriptors(&self) -> Vec<u8> {
        let time = Message::default().message(
            4,
            described(
                "Timestamp",
                &[field("seconds", 1, ONE, INT64, None), field("nanos", 2, ONE, INT32, None)],
            ),
        );
        let time = file("google/protobuf/timestamp.proto", "google.protobuf", &[], time);
        let all = |fields: &[Field]| -> Vec<Vec<u8>> {
            fields
                .iter()
                .map(|(name, number, label, kind, of)| field(name, *number, *label, *kind, *of))
                .collect()
        };
        let time_field = field("timestamp", 1, ONE, MESSAGE, Some(TIMESTAMP));
        let fields = [vec![time_field], all(self.fields)].concat();
        let mut own = Message::default().message(4, described(self.name, &fields));
        for (name, fields) in self.others {
            own = own.message(4, described(name, &all(fields)));
        }
        let path = format!("{}/{}.proto", self.package, self.name);
        let own = file(&path, self.package, &["google/protobuf/timestamp.proto"], own);
        Message::default().message(1, time).message(1, own).bytes()
    }
}

/// A `FileDescriptorProto` with the messages in `content`.
fn file(path: &str, package: &str, needs: &[&str], content: Message) -> Message {
    let mut file = Message::default().data(1, path.as_bytes()).data(2, package.as_bytes());
    for needed in needs {
        file = file.data(3, needed.as_bytes());
    }
    file.0.extend(content.0);
    file.data(12, b"proto3")
}

/// A `DescriptorProto`.
fn described(name: &str, fields: &[Vec<u8>]) -> Message {
    let message = Message::default().data(1, name.as_bytes());
    fields.iter().fold(message, |message, field| message.data(2, field))
}

/// A `FieldDescriptorProto`.
fn field(name: &str, number: u64, label: u64, kind: u64, of: Option<&str>) -> Vec<u8> {
    let field =
        Message::default().data(1, name.as_bytes()).number(3, number).number(4, label).number(5, kind);
    of.map_or_else(
        || field.0.clone(),
        |of| {
            let mut typed = Message(field.0.clone());
            typed = typed.data(6, of.as_bytes());
            typed.0
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_protobufs_bytes() {
        // By the encoding rules: tag, length, content.
        assert_eq!(flag(1_000_000_300, true), [0x0a, 5, 8, 1, 0x10, 0xac, 2, 0x10, 1]);
        assert_eq!(scalar(0, 1.0), [0x0a, 4, 8, 0, 0x10, 0, 0x11, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]);
        assert_eq!(vector(0, &[1.0])[6..], [0x12, 8, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]);
    }
}
