//! Whether the bytes of a file are messages as ONNX has them: each inside the one around it, each number in at most ten bytes. The
//! runtime takes that for granted, and a file that was cut off or is something else could keep it busy for ever.

/// How deep graphs may lie inside graphs.
const DEEPEST: usize = 100;
/// The longest number.
const NUMBER_BYTES: usize = 10;

/// The messages that are looked into.
#[derive(Clone, Copy)]
enum Kind {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
    Value,
    Type,
    TensorType,
    Shape,
    /// A message without messages inside.
    Plain,
}

/// What a field of bytes holds.
enum Inside {
    Message(Kind),
    Numbers,
    Bytes,
}

impl Kind {
    fn inside(self, field: u64) -> Inside {
        match (self, field) {
            (Self::Model, 7) | (Self::Attribute, 6 | 11) => Inside::Message(Self::Graph),
            (Self::Model, 8 | 14) | (Self::Tensor, 3 | 13) | (Self::Shape, 1) => Inside::Message(Self::Plain),
            (Self::Graph, 1) => Inside::Message(Self::Node),
            (Self::Graph, 5) | (Self::Attribute, 5 | 10) => Inside::Message(Self::Tensor),
            (Self::Graph, 11..=13) => Inside::Message(Self::Value),
            (Self::Node, 5) => Inside::Message(Self::Attribute),
            (Self::Value, 2) => Inside::Message(Self::Type),
            (Self::Type, 1) => Inside::Message(Self::TensorType),
            (Self::TensorType, 2) => Inside::Message(Self::Shape),
            (Self::Attribute, 8) | (Self::Tensor, 1 | 5 | 7 | 11) => Inside::Numbers,
            _ => Inside::Bytes,
        }
    }
}

/// Whether a file is a model as far as its messages go.
pub(super) fn is_model(bytes: &[u8]) -> bool {
    !bytes.is_empty() && is_message(Kind::Model, bytes, 0).is_some()
}

fn is_message(kind: Kind, mut bytes: &[u8], depth: usize) -> Option<()> {
    if depth > DEEPEST {
        return None;
    }
    while !bytes.is_empty() {
        let tag = number(&mut bytes)?;
        match tag & 7 {
            0 => drop(number(&mut bytes)?),
            1 => drop(taken(&mut bytes, 8)?),
            5 => drop(taken(&mut bytes, 4)?),
            2 => {
                let length = usize::try_from(number(&mut bytes)?).ok()?;
                let mut field = taken(&mut bytes, length)?;
                match kind.inside(tag >> 3) {
                    Inside::Message(kind) => is_message(kind, field, depth + 1)?,
                    Inside::Numbers => {
                        while !field.is_empty() {
                            number(&mut field)?;
                        }
                    }
                    Inside::Bytes => {}
                }
            }
            _ => return None,
        }
    }
    Some(())
}

fn taken<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    let length = bytes.iter().take(NUMBER_BYTES).position(|byte| *byte < 0x80)? + 1;
    let taken = taken(bytes, length)?;
    let add =
        |number: u64, (at, byte): (usize, &u8)| number | u64::from(byte & 0x7f).wrapping_shl(7 * at as u32);
    // The tenth byte has room for one bit.
    (length < NUMBER_BYTES || taken[NUMBER_BYTES - 1] < 2).then(|| taken.iter().enumerate().fold(0, add))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_off_or_something_else_is_no_model() {
        let whole = include_bytes!("../../../tests/own_onnx/logit.onnx");
        assert!(is_model(whole));
        assert!((0..whole.len()).filter(|length| is_model(&whole[..*length])).count() < 8, "between fields");
        for bytes in [&b""[..], b"no model at all", &[0xff; 100], &[0x80; 11], b"\x08"] {
            assert!(!is_model(bytes), "{bytes:?}");
        }
        // A graph that says it is longer than the file.
        assert!(!is_model(&[0x3a, 0xff, 0xff, 0xff, 0xff, 0x7f, 0]));
        // Graphs in attributes of nodes of graphs, without end.
        let mut nested = Vec::new();
        for field in [6u8, 5, 1].iter().cycle().take(399) {
            let mut around = vec![field << 3 | 2];
            let mut length = nested.len();
            while length >= 0x80 {
                around.push(length as u8 | 0x80);
                length >>= 7;
            }
            around.push(length as u8);
            nested = [around, nested].concat();
        }
        assert!(is_message(Kind::Graph, &nested, 0).is_none());
    }
}
