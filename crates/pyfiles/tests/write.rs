//! What is written reads back the same, and Python has read these very bytes.
#![allow(clippy::unwrap_used, missing_docs)]

mod leaves;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use leaves::leaves;
use plaudit_pyfiles::{
    Array, DType, Format, PickleStyle, Protocol, PtWriter, PyValue, Reader, Storages, TensorStyle,
    WriteError, pickle_bytes, read, write_npy, write_npz, write_pickle, write_pt,
};

fn fixtures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/fixtures");
    let mut files = Vec::new();
    for folder in [folder.clone(), folder.join("pkl_numpy"), folder.join("pkl_torch")] {
        files.extend(
            std::fs::read_dir(folder)
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .filter(|path| path.is_file()),
        );
    }
    files.sort();
    files
}

fn style(protocol: Protocol) -> PickleStyle {
    PickleStyle { protocol, tensors: TensorStyle::Torch }
}

/// Every form of a value that this crate writes; some values do not have all of them.
fn forms(value: &PyValue, path: &Path, mut check: impl FnMut(usize, Result<(), WriteError>)) {
    for (form, protocol) in [Protocol::Two, Protocol::Four, Protocol::Five].into_iter().enumerate() {
        check(form, write_pickle(path, value, style(protocol)));
    }
    check(3, write_pt(path, value, Storages::Own));
    check(4, write_pt(path, value, Storages::Shared));
    check(5, write_npy(path, value));
    check(6, write_npz(path, [("value", value)]));
}

/// `check_written.py` has loaded exactly these bytes in Python. If a change to the writers is meant, run it again as
/// it says, and put the new numbers here.
const CHECKED_IN_PYTHON: [u32; 7] =
    [3723235576, 1720387046, 1140266801, 1780878486, 1314690825, 4293577295, 2570836227];

#[test]
fn every_fixture_is_written_and_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let mut crcs = [0u32; 7];
    for file in fixtures() {
        let value = read(&file).unwrap();
        let want = leaves(&value);
        forms(&value, &path, |form, written| match written {
            Err(WriteError::Unsupported { .. }) => assert!(!(3..=4).contains(&form), "{}", file.display()),
            other => {
                other.unwrap();
                let bytes = std::fs::read(&path).unwrap();
                crcs[form] = crcs[form].rotate_left(5) ^ crc32fast::hash(&bytes);
                let again = read(&path).unwrap();
                let again = if form == 6 { again.get("value").unwrap() } else { &again };
                // An object that numpy had to wrap is unwrapped; arrays of any kind come back as numpy's.
                let wrapped = form >= 5 && !matches!(value, PyValue::ObjectArray(_));
                let again = if wrapped { again.item().unwrap_or(again) } else { again };
                if !(form >= 5 && value.as_array().is_some()) {
                    assert_eq!(leaves(again), want, "{} as {form}", file.display());
                }
            }
        });
    }
    assert_eq!(crcs, CHECKED_IN_PYTHON, "the bytes changed: load them in Python, see above");
}

fn sample() -> PyValue {
    let images =
        (0..3u8).map(|shade| PyValue::Tensor(Arc::new(Array::from_slice(&[2, 2, 3], &[shade; 12]).unwrap())));
    PyValue::dict([
        ("images", PyValue::list(images)),
        ("labels", PyValue::list([0, 1, 1].map(PyValue::Int))),
        ("done", PyValue::Scalar(Arc::new(Array::from_bool(true)))),
        ("state", Array::from_slice(&[2], &[0.5f32, -1.0]).unwrap().into()),
    ])
}

#[test]
fn tensors_become_what_is_asked_for() {
    let value = sample();
    let torch = Reader::new().read_bytes(pickle_bytes(&value, PickleStyle::default()).unwrap()).unwrap();
    assert_eq!(torch, value);
    let numpy = PickleStyle { tensors: TensorStyle::Numpy, ..PickleStyle::default() };
    let bytes = pickle_bytes(&value, numpy).unwrap();
    assert!(!bytes.windows(5).any(|window| window == b"torch"));
    let numpy = Reader::new().format(Format::Pickle).read_bytes(bytes).unwrap();
    let first = &numpy.get("images").unwrap().as_items().unwrap()[1];
    assert!(matches!(first, PyValue::Array(_)));
    assert_eq!(first.as_array().unwrap().bytes(), [1; 12]);
}

#[test]
fn shared_storages_are_one_member() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("train.pt");
    let count = |path: &Path| {
        let bytes = std::fs::read(path).unwrap();
        // each member is named in its own header and in the directory
        bytes.windows(13).filter(|window| *window == b"archive/data/").count() / 2
    };
    write_pt(&path, &sample(), Storages::Shared).unwrap();
    assert_eq!((count(&path), read(&path).unwrap()), (1, sample()));
    write_pt(&path, &sample(), Storages::Own).unwrap();
    assert_eq!((count(&path), read(&path).unwrap()), (3, sample()));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_tensor_belongs_to_its_writer() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other) = (dir.path().join("one.pt"), dir.path().join("other.pt"));
    let mut writer = PtWriter::create(&one).unwrap();
    let mut storage = writer.storage(DType::F32).unwrap();
    let error = storage.push(&[2], &[0; 4]).unwrap_err();
    assert!(error.to_string().contains("4 bytes as float32 of shape [2]"), "{error}");
    let tensor = storage.push(&[1], &1.5f32.to_ne_bytes()).unwrap();
    let error = PtWriter::create(&other).unwrap().finish(&tensor).unwrap_err();
    assert!(error.to_string().contains("a tensor that another file holds"), "{error}");
    assert!(pickle_bytes(&tensor, PickleStyle::default()).is_err());
    writer.finish(&PyValue::list([tensor.clone(), tensor])).unwrap();
    assert_eq!(read(&one).unwrap().as_items().unwrap()[1].to_f64(), Some(1.5));
    assert!(!other.exists());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn failures_leave_what_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("weights.pkl");
    std::fs::write(&path, b"before").unwrap();
    let half = Array::new(DType::Bf16, &[1], vec![0; 2]).unwrap();
    let value = PyValue::list([PyValue::from("x".repeat(1 << 20).as_str()), half.into()]);
    let error = write_pickle(&path, &value, PickleStyle::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`[1]`: cannot write an array of bfloat16 as a numpy array; write it as a torch tensor, or as float32"
    );
    assert!(write_npy(&path, &value).is_err());
    assert!(write_npz(&path, [("a", &PyValue::None), ("a", &PyValue::None)]).is_err());
    assert!(write_npz(&path, [("../a", &PyValue::None)]).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"before");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);

    let error = write_pt(dir.path().join("no/such/folder.pt"), &value, Storages::Own).unwrap_err();
    assert!(matches!(error, WriteError::Io { .. }), "{error}");
    let mut deep = PyValue::None;
    for _ in 0..600 {
        deep = PyValue::list([deep]);
    }
    assert!(
        write_pickle(&path, &deep, PickleStyle::default())
            .unwrap_err()
            .to_string()
            .contains("nested more than 500")
    );
    assert!(write_pt(&path, &deep, Storages::Shared).is_err());
}

#[test]
fn formats_are_not_mistaken() {
    let pickle = pickle_bytes(&PyValue::None, PickleStyle::default()).unwrap();
    let error = Reader::new().format(Format::TorchZip).read_bytes(pickle).unwrap_err();
    assert_eq!(error.to_string(), "byte 0: expected a file of torch.save, found a plain pickle");
}

#[test]
fn what_cannot_be_written_is_named_by_its_key() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let half = PyValue::from(Array::new(DType::Bf16, &[1], vec![0; 2]).unwrap());
    let within = |value: PyValue| {
        let list = PyValue::list((0..1500).map(|at| if at == 1234 { value.clone() } else { PyValue::None }));
        PyValue::dict([("label", PyValue::Int(1)), ("states", PyValue::tuple([list]))])
    };
    let pickled = write_pickle(&path, &within(half.clone()), PickleStyle::default()).unwrap_err().to_string();
    assert!(
        pickled.starts_with("`states[0][1234]`: cannot write an array of bfloat16 as a numpy array; "),
        "{pickled}"
    );
    let saved = write_npy(&path, &within(half.clone())).unwrap_err().to_string();
    assert!(saved.starts_with("`states[0][1234]`: "), "{saved}");
    let zipped = write_npz(&path, [("episode", &within(half.clone()))]).unwrap_err().to_string();
    assert!(zipped.starts_with("`episode.states[0][1234]`: "), "{zipped}");
    let alone = write_npy(&path, &half).unwrap_err().to_string();
    assert!(alone.starts_with("cannot write an array of bfloat16 in a .npy file; "), "{alone}");
    let words = PyValue::Tensor(Arc::new(Array::new(DType::FixedBytes(2), &[1], vec![0; 2]).unwrap()));
    for storages in [Storages::Own, Storages::Shared] {
        let error = write_pt(&path, &within(words.clone()), storages).unwrap_err();
        assert!(matches!(&error, WriteError::Unsupported { key, .. } if key == "states[0][1234]"), "{error}");
    }
    assert!(!path.exists());
}
