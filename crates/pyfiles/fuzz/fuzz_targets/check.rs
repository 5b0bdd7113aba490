//! What must hold for any bytes whatsoever.

use plaudit_pyfiles::{Limits, PickleStyle, Protocol, PyValue, Reader, TensorStyle, pickle_bytes};

/// Reads bytes. If they are a value, walks it, writes it as a pickle, and reads that again.
pub fn check(bytes: &[u8]) {
    let reader = Reader::new().limits(Limits { copy_bytes: 4 << 20, ..Limits::default() });
    let Ok(value) = reader.read_bytes(bytes) else { return };
    let seen = walk(&value);
    for protocol in [Protocol::Two, Protocol::Five] {
        let style = PickleStyle { protocol, tensors: TensorStyle::Torch };
        // Some values cannot be represented in a pickle, such as tensors of 16-bit unsigned integers.
        let Ok(written) = pickle_bytes(&value, style) else { continue };
        let again = Reader::new().read_bytes(written).expect("what is written is read");
        assert_eq!(walk(&again), seen, "written and read again, a value is the same");
    }
}

/// Values and array bytes, counted.
fn walk(value: &PyValue) -> (usize, usize) {
    let all = |items: &[PyValue]| items.iter().map(walk).fold((1, 0), add);
    match value {
        PyValue::List(items) | PyValue::Tuple(items) | PyValue::Set(items) | PyValue::FrozenSet(items) => all(items),
        PyValue::ObjectArray(array) => all(array.items()),
        PyValue::Dict(dict) => {
            let parts = [Some(&**dict), dict.attributes()];
            let entries = parts.into_iter().flatten().flat_map(|dict| dict.iter());
            entries.flat_map(|(key, value)| [walk(key), walk(value)]).fold((1, 0), add)
        }
        other => {
            let array = other.as_array();
            array.and_then(|array| array.to_f64());
            array.and_then(|array| array.row(0));
            let _ = other.to_bool();
            (1, array.map_or(0, |array| array.bytes().len()))
        }
    }
}

fn add(a: (usize, usize), b: (usize, usize)) -> (usize, usize) {
    (a.0 + b.0, a.1 + b.1)
}
