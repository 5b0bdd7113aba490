//! Any value comes back from any form of file that can hold it; no mangled file does any harm.
#![allow(clippy::unwrap_used, missing_docs)]

use std::sync::Arc;

use plaudit_pyfiles::{
    Array, DType, Library, ObjectArray, PickleStyle, Protocol, PyDict, PyValue, Reader, Storages,
    TensorStyle, pickle_bytes, read, write_npy, write_pt,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn leaf() -> impl Strategy<Value = PyValue> {
    let numbers = prop_oneof![any::<i64>(), (-300i64..300), Just(i64::MIN)];
    prop_oneof![
        Just(PyValue::None),
        any::<bool>().prop_map(PyValue::Bool),
        numbers.prop_map(PyValue::Int),
        (-1e300f64..1e300).prop_map(PyValue::Float),
        ".{0,300}".prop_map(|text| PyValue::from(text.as_str())),
        vec(any::<u8>(), 0..300).prop_map(|bytes| PyValue::Bytes(bytes.into())),
        array().prop_map(|array| PyValue::Array(Arc::new(array))),
        array().prop_map(|array| PyValue::Tensor(Arc::new(array))),
        any::<bool>().prop_map(|truth| PyValue::Scalar(Arc::new(Array::from_bool(truth)))),
        any::<i16>().prop_map(|number| PyValue::Scalar(Arc::new(Array::from_number(number)))),
        Just(PyValue::DType(Library::Torch, DType::Bf16)),
        Just(PyValue::Device("cuda:1".into())),
        (-9.0f64..9.0).prop_map(|x| PyValue::Complex(x, 1.5)),
    ]
}

fn array() -> impl Strategy<Value = Array> {
    let dtypes = [DType::U8, DType::Bool, DType::F16, DType::I32, DType::F64, DType::C128];
    (proptest::sample::select(dtypes.to_vec()), vec(0usize..5, 0..4), any::<u8>()).prop_map(
        |(dtype, shape, fill)| {
            let len = shape.iter().product::<usize>() * dtype.size();
            Array::new(dtype, &shape, (0..len).map(|i| (i as u8).wrapping_add(fill)).collect::<Vec<u8>>())
                .unwrap()
        },
    )
}

fn value() -> impl Strategy<Value = PyValue> {
    leaf().prop_recursive(5, 60, 8, |inner| {
        let entries = vec((".{0,8}", inner.clone()), 0..25).prop_map(|mut entries| {
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            entries.dedup_by(|a, b| a.0 == b.0);
            PyDict::new(
                entries.into_iter().map(|(key, value)| (PyValue::from(key.as_str()), value)).collect(),
            )
        });
        prop_oneof![
            vec(inner.clone(), 0..8).prop_map(PyValue::list),
            vec(inner.clone(), 0..8).prop_map(PyValue::tuple),
            entries.clone().prop_map(|dict| PyValue::Dict(Arc::new(dict))),
            entries.prop_map(|dict| PyValue::Dict(Arc::new(dict.into_ordered(None)))),
            inner.prop_map(|item| PyValue::ObjectArray(Arc::new(ObjectArray::around(item)))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn values_come_back(value in value()) {
        for protocol in [Protocol::Two, Protocol::Four, Protocol::Five] {
            let style = PickleStyle { protocol, tensors: TensorStyle::Torch };
            let bytes = pickle_bytes(&value, style).unwrap();
            prop_assert_eq!(&Reader::new().read_bytes(bytes).unwrap(), &value);
        }
        let dir = tempfile::tempdir().unwrap();
        for storages in [Storages::Own, Storages::Shared] {
            write_pt(dir.path().join("x.pt"), &value, storages).unwrap();
            prop_assert_eq!(&read(dir.path().join("x.pt")).unwrap(), &value);
        }
        if value.as_array().is_none() {
            write_npy(dir.path().join("x.npy"), &value).unwrap();
            let again = read(dir.path().join("x.npy")).unwrap();
            let again = if matches!(value, PyValue::ObjectArray(_)) { &again } else { again.item().unwrap() };
            prop_assert_eq!(again, &value);
        }
    }

    #[test]
    fn mangled_files_do_no_harm(value in value(), place in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let dir = tempfile::tempdir().unwrap();
        write_pt(dir.path().join("x.pt"), &value, Storages::Own).unwrap();
        let archive = std::fs::read(dir.path().join("x.pt")).unwrap();
        let pickle = pickle_bytes(&value, PickleStyle::default()).unwrap();
        for mut bytes in [archive, pickle] {
            let place = place.index(bytes.len());
            bytes[place] = byte;
            let _ = Reader::new().read_bytes(&bytes[..]);
            bytes.truncate(cut.index(bytes.len()));
            let _ = Reader::new().read_bytes(bytes);
        }
    }
}
