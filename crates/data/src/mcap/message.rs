//! What a message says: an image, numbers, or words. Foxglove's schemas as JSON and protobuf, those of ROS 2 as CDR, numbers as JSON.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use plaudit_pyfiles::Buffer;
use serde_json::Value;

use super::cdr::Cdr;
use super::file::{Channel, Message};
use crate::protobuf::{Fields, Wire};

/// What the messages of a topic are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    CompressedImage(Encoding),
    RawImage(Encoding),
    /// Numbers, a flag or words, as a message of ROS 2.
    Ros2(Ros2),
    /// Numbers or a flag, as [`export`](crate::export) writes them.
    Exported(Exported),
    /// An object whose fields say what it is.
    Json,
    /// Images that are not read here.
    OtherImage,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Protobuf,
    Cdr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ros2 {
    JointState,
    Float64s,
    Float32s,
    Float64,
    Float32,
    Int32,
    Int64,
    Bool,
    Text,
}

/// Messages with a time, and what it is about in field 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exported {
    Scalar,
    Flag,
    Vector,
}

/// What one message says.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Image(Picture),
    Numbers(Vec<f64>),
    Text(String),
    /// Nothing that is read here.
    Nothing,
}

/// An image as it was recorded.
#[derive(Clone, Debug)]
pub(crate) enum Picture {
    /// A PNG or JPEG.
    Compressed(Buffer),
    /// Rows of pixels.
    Raw { height: usize, width: usize, encoding: String, step: usize, data: Buffer },
    /// A distance for each pixel: no image for people.
    Depth,
}

/// Encodings of images whose pixels are distances.
const DEPTH: [&str; 3] = ["16UC1", "mono16", "32FC1"];

impl Kind {
    pub(crate) fn of(channel: &Channel) -> Self {
        let encoding = match channel.encoding.as_str() {
            "json" => Some(Encoding::Json),
            "protobuf" => Some(Encoding::Protobuf),
            "cdr" => Some(Encoding::Cdr),
            _ => None,
        };
        let ros2 = |kind| if encoding == Some(Encoding::Cdr) { Self::Ros2(kind) } else { Self::Other };
        match (channel.schema.as_str(), encoding) {
            ("foxglove.CompressedImage", Some(encoding @ (Encoding::Json | Encoding::Protobuf)))
            | ("sensor_msgs/msg/CompressedImage", Some(encoding @ Encoding::Cdr)) => {
                Self::CompressedImage(encoding)
            }
            ("foxglove.RawImage", Some(encoding @ (Encoding::Json | Encoding::Protobuf)))
            | ("sensor_msgs/msg/Image", Some(encoding @ Encoding::Cdr)) => Self::RawImage(encoding),
            ("sensor_msgs/msg/JointState", _) => ros2(Ros2::JointState),
            ("std_msgs/msg/Float64MultiArray", _) => ros2(Ros2::Float64s),
            ("std_msgs/msg/Float32MultiArray", _) => ros2(Ros2::Float32s),
            ("std_msgs/msg/Float64", _) => ros2(Ros2::Float64),
            ("std_msgs/msg/Float32", _) => ros2(Ros2::Float32),
            ("std_msgs/msg/Int32", _) => ros2(Ros2::Int32),
            ("std_msgs/msg/Int64", _) => ros2(Ros2::Int64),
            ("std_msgs/msg/Bool", _) => ros2(Ros2::Bool),
            ("std_msgs/msg/String", _) => ros2(Ros2::Text),
            ("plaudit.Scalar", Some(Encoding::Protobuf)) => Self::Exported(Exported::Scalar),
            ("plaudit.Flag", Some(Encoding::Protobuf)) => Self::Exported(Exported::Flag),
            ("plaudit.Vector", Some(Encoding::Protobuf)) => Self::Exported(Exported::Vector),
            (name, _) if name.ends_with("Image") || name.ends_with("CompressedVideo") => Self::OtherImage,
            (_, Some(Encoding::Json)) => Self::Json,
            _ => Self::Other,
        }
    }

    pub(crate) fn is_image(self) -> bool {
        matches!(self, Self::CompressedImage(_) | Self::RawImage(_))
    }

    /// What a message of a topic says.
    pub(crate) fn read(self, topic: &str, message: &Message) -> Result<Content, String> {
        let data = &message.data;
        match self {
            Self::CompressedImage(Encoding::Cdr) => {
                let mut cdr = Cdr::new(data)?;
                cdr.header()?;
                let format = cdr.text()?;
                compressed(&format, view(data, cdr.bytes()?))
            }
            Self::CompressedImage(Encoding::Protobuf) => {
                let found = Protobuf::read(data)?;
                compressed(&found.text(3)?, view(data, found.bytes(2)))
            }
            Self::CompressedImage(Encoding::Json) => {
                let value = json(data)?;
                compressed(value["format"].as_str().unwrap_or_default(), base64(&value)?)
            }
            Self::RawImage(Encoding::Cdr) => {
                let mut cdr = Cdr::new(data)?;
                cdr.header()?;
                let (height, width, encoding) = (cdr.u32()?, cdr.u32()?, cdr.text()?);
                let (_, step) = (cdr.u8()?, cdr.u32()?);
                Ok(raw([height, width, step], encoding, view(data, cdr.bytes()?)))
            }
            Self::RawImage(Encoding::Protobuf) => {
                let found = Protobuf::read(data)?;
                let sides = [3, 2, 5].map(|number| found.fixed32(number));
                Ok(raw(sides, found.text(4)?, view(data, found.bytes(6))))
            }
            Self::RawImage(Encoding::Json) => {
                let value = json(data)?;
                let side = |name: &str| {
                    value[name]
                        .as_u64()
                        .and_then(|side| u32::try_from(side).ok())
                        .ok_or(format!("`{name}` is no side of an image"))
                };
                let sides = [side("height")?, side("width")?, side("step")?];
                let encoding = value["encoding"].as_str().unwrap_or_default().to_owned();
                Ok(raw(sides, encoding, base64(&value)?))
            }
            Self::Ros2(kind) => ros2(kind, &mut Cdr::new(data)?),
            Self::Exported(kind) => exported(kind, &Protobuf::read(data)?),
            Self::Json => Ok(json_content(topic, &json(data)?)),
            Self::OtherImage | Self::Other => Ok(Content::Nothing),
        }
    }
}

fn view(data: &Buffer, range: Range<usize>) -> Buffer {
    data.slice(range).unwrap_or_else(|| Vec::new().into())
}

fn compressed(format: &str, data: Buffer) -> Result<Content, String> {
    let is_depth = format.contains("compressedDepth") || DEPTH.iter().any(|depth| format.starts_with(depth));
    Ok(Content::Image(if is_depth { Picture::Depth } else { Picture::Compressed(data) }))
}

fn raw([height, width, step]: [u32; 3], encoding: String, data: Buffer) -> Content {
    let [height, width, step] = [height, width, step].map(|side| side as usize);
    Content::Image(match DEPTH.contains(&encoding.as_str()) {
        true => Picture::Depth,
        false => Picture::Raw { height, width, encoding, step, data },
    })
}

fn ros2(kind: Ros2, cdr: &mut Cdr<'_>) -> Result<Content, String> {
    // `std_msgs/MultiArrayLayout`: how its numbers lie, which are taken one after the other.
    let layout = |cdr: &mut Cdr<'_>| {
        cdr.list(|cdr| {
            cdr.text()?;
            cdr.u32()?;
            cdr.u32()
        })?;
        cdr.u32()
    };
    Ok(Content::Numbers(match kind {
        Ros2::JointState => {
            cdr.header()?;
            cdr.list(Cdr::text)?;
            cdr.list(Cdr::f64)?
        }
        Ros2::Float64s => {
            layout(cdr)?;
            cdr.list(Cdr::f64)?
        }
        Ros2::Float32s => {
            layout(cdr)?;
            cdr.list(Cdr::f32)?.into_iter().map(f64::from).collect()
        }
        Ros2::Float64 => vec![cdr.f64()?],
        Ros2::Float32 => vec![cdr.f32()?.into()],
        Ros2::Int32 => vec![cdr.i32()?.into()],
        Ros2::Int64 => vec![cdr.i64()? as f64],
        Ros2::Bool => vec![cdr.u8()?.into()],
        Ros2::Text => return Ok(Content::Text(cdr.text()?)),
    }))
}

fn exported(kind: Exported, found: &Protobuf<'_>) -> Result<Content, String> {
    Ok(Content::Numbers(match kind {
        Exported::Scalar => vec![found.double(2)],
        Exported::Flag => vec![f64::from(u8::from(found.varint(2) != 0))],
        Exported::Vector => {
            let (numbers, rest) = found.bytes[found.bytes(2)].as_chunks::<8>();
            if !rest.is_empty() {
                return Err("its numbers are cut short".into());
            }
            numbers.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect()
        }
    }))
}

fn json(data: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(data).map_err(|error| error.to_string())
}

/// `data` of a message of Foxglove's.
fn base64(value: &Value) -> Result<Buffer, String> {
    let text = value["data"].as_str().ok_or("`data` is no text of base64")?;
    Ok(STANDARD.decode(text).map_err(|error| format!("`data` is no text of base64: {error}"))?.into())
}

/// What an object says: its `position`, `data` or `value`, or what is called as the topic is.
fn json_content(topic: &str, value: &Value) -> Content {
    let name = topic.rsplit('/').next().unwrap_or(topic);
    let said = ["position", "data", "value", name].iter().find_map(|key| value.get(key)).unwrap_or(value);
    let number =
        |value: &Value| value.as_f64().or_else(|| value.as_bool().map(|flag| f64::from(u8::from(flag))));
    match said {
        Value::String(text) => Content::Text(text.clone()),
        Value::Array(list) => {
            list.iter().map(number).collect::<Option<Vec<f64>>>().map_or(Content::Nothing, Content::Numbers)
        }
        one => number(one).map_or(Content::Nothing, |number| Content::Numbers(vec![number])),
    }
}

/// The fields of a message by number; the last of each counts.
struct Protobuf<'a> {
    bytes: &'a [u8],
    fields: Vec<(u64, Wire)>,
}

impl<'a> Protobuf<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, String> {
        let fields = Fields::of(bytes).collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        Ok(Self { bytes, fields })
    }

    fn last<T>(&self, number: u64, take: impl Fn(&Wire) -> Option<T>) -> Option<T> {
        self.fields.iter().rev().filter(|(found, _)| *found == number).find_map(|(_, wire)| take(wire))
    }

    fn bytes(&self, number: u64) -> Range<usize> {
        let range = |wire: &Wire| if let Wire::Bytes(range) = wire { Some(range.clone()) } else { None };
        self.last(number, range).unwrap_or_default()
    }

    fn text(&self, number: u64) -> Result<String, String> {
        let text = std::str::from_utf8(&self.bytes[self.bytes(number)]);
        text.map(String::from).map_err(|_| "a text is no UTF-8".into())
    }

    fn varint(&self, number: u64) -> u64 {
        self.last(number, |wire| if let Wire::Varint(value) = wire { Some(*value) } else { None })
            .unwrap_or_default()
    }

    fn double(&self, number: u64) -> f64 {
        let fixed = |wire: &Wire| {
            if let Wire::Fixed64(bytes) = wire { Some(f64::from_le_bytes(*bytes)) } else { None }
        };
        self.last(number, fixed).unwrap_or_default()
    }

    fn fixed32(&self, number: u64) -> u32 {
        let fixed = |wire: &Wire| {
            if let Wire::Fixed32(bytes) = wire { Some(u32::from_le_bytes(*bytes)) } else { None }
        };
        self.last(number, fixed).unwrap_or_default()
    }
}
