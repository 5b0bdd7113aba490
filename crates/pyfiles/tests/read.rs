//! Every fixture reads as Python reads it, leaf by leaf.
#![allow(clippy::unwrap_used, missing_docs)]

mod leaves;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use leaves::{Leaf, leaves};
use plaudit_pyfiles::{Access, Buffer, PyValue, Reader, read};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python")
}

/// What Python sees in each file; some files only name another with the same leaves.
fn expected() -> BTreeMap<String, Vec<Leaf>> {
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder().join("leaves.json")).unwrap()).unwrap();
    let rows = |name: &str| match &json[name] {
        serde_json::Value::String(same) => serde_json::from_value(json[same].clone()).unwrap(),
        rows => serde_json::from_value(rows.clone()).unwrap(),
    };
    json.as_object().unwrap().keys().map(|name| (name.clone(), rows(name))).collect()
}

fn check(name: &str, want: &[Leaf], value: &PyValue) {
    let got = leaves(value);
    for (got, want) in got.iter().zip(want) {
        assert_eq!(got, want, "{name}");
    }
    assert_eq!(got.len(), want.len(), "{name}");
}

#[test]
fn every_fixture_equals_python() {
    let expected = expected();
    assert!(expected.len() > 70);
    for (name, want) in &expected {
        let path = folder().join("fixtures").join(name);
        check(name, want, &read(&path).unwrap());
        check(name, want, &Reader::new().access(Access::Copy).read(&path).unwrap());
    }
}

#[test]
fn bytes_in_odd_places_equal_python_too() {
    for (name, want) in &expected() {
        let mut bytes = vec![0];
        bytes.extend(std::fs::read(folder().join("fixtures").join(name)).unwrap());
        let shifted = Buffer::from(bytes);
        let shifted = shifted.slice(1..shifted.len()).unwrap();
        check(name, want, &Reader::new().read_bytes(shifted).unwrap());
    }
}
