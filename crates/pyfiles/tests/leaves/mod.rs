//! The leaves of a value in the words of `tests/python/make_fixtures.py`.

use plaudit_pyfiles::{Array, Library, PyValue};

/// A path and what is there.
pub(crate) type Leaf = (String, String);

/// Every container and leaf, in order.
pub(crate) fn leaves(value: &PyValue) -> Vec<Leaf> {
    let mut out = Vec::new();
    walk("", value, &mut out);
    out
}

fn walk(path: &str, value: &PyValue, out: &mut Vec<Leaf>) {
    let items = match value {
        PyValue::Dict(dict) => {
            let kind = if dict.is_ordered() { "OrderedDict" } else { "dict" };
            out.push((path.into(), format!("{kind} {}", dict.len())));
            for (i, (key, item)) in dict.iter().enumerate() {
                walk(&format!("{path}.key{i}"), key, out);
                let name = key.as_str().map_or(i.to_string(), str::to_owned);
                walk(&format!("{path}.{name}"), item, out);
            }
            if let Some(attributes) = dict.attributes() {
                walk(
                    &format!("{path}.__dict__"),
                    &PyValue::Dict(std::sync::Arc::new(attributes.clone())),
                    out,
                );
            }
            return;
        }
        PyValue::List(items) => {
            out.push((path.into(), format!("list {}", items.len())));
            &items[..]
        }
        PyValue::Tuple(items) => {
            out.push((path.into(), format!("tuple {}", items.len())));
            &items[..]
        }
        PyValue::ObjectArray(array) => {
            out.push((path.into(), format!("objects {:?}", array.shape())));
            array.items()
        }
        other => return out.push((path.into(), leaf(other))),
    };
    for (i, item) in items.iter().enumerate() {
        walk(&format!("{path}[{i}]"), item, out);
    }
}

fn leaf(value: &PyValue) -> String {
    match value {
        PyValue::None => "None".into(),
        PyValue::Bool(true) => "True".into(),
        PyValue::Bool(false) => "False".into(),
        PyValue::Int(number) => format!("int {number}"),
        PyValue::BigInt(number) => format!("int {number}"),
        PyValue::Float(number) => format!("float {:016x}", number.to_bits()),
        PyValue::Complex(real, imaginary) => {
            format!("complex {:016x} {:016x}", real.to_bits(), imaginary.to_bits())
        }
        PyValue::Str(text) if text.chars().count() < 300 => format!("str {text}"),
        PyValue::Str(text) => {
            format!("text {} {:08x}", text.chars().count(), crc32fast::hash(text.as_bytes()))
        }
        PyValue::Bytes(bytes) => format!("bytes {} {:08x}", bytes.len(), crc32fast::hash(bytes)),
        PyValue::Set(items) => format!("set {}", python_list(items)),
        PyValue::FrozenSet(items) => format!("frozenset {}", python_list(items)),
        PyValue::Array(array) => {
            format!("array {} {:?} {}", array.dtype().descr().unwrap_or_default(), array.shape(), crc(array))
        }
        PyValue::Scalar(scalar) => {
            format!("scalar {} {}", scalar.dtype().descr().unwrap_or_default(), crc(scalar))
        }
        PyValue::Tensor(tensor) => {
            format!(
                "tensor {} {:?} {}",
                tensor.dtype().torch_name().unwrap_or_default(),
                tensor.shape(),
                crc(tensor)
            )
        }
        PyValue::DType(Library::Numpy, dtype) => format!("dtype numpy {}", dtype.descr().unwrap_or_default()),
        PyValue::DType(Library::Torch, dtype) => {
            format!("dtype torch {}", dtype.torch_name().unwrap_or_default())
        }
        PyValue::Device(name) => format!("device {name}"),
        other => format!("unknown {}", other.kind()),
    }
}

fn crc(array: &Array) -> String {
    format!("{:08x}", crc32fast::hash(array.bytes()))
}

fn python_list(items: &[PyValue]) -> String {
    let mut all: Vec<String> = items.iter().map(leaf).collect();
    all.sort();
    format!("[{}]", all.iter().map(|item| format!("'{item}'")).collect::<Vec<_>>().join(", "))
}
