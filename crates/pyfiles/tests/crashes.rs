//! What once made the readers or writers stumble, found by fuzzing: read, written and read again without a fall.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::Path;

use plaudit_pyfiles::{PickleStyle, Protocol, Reader, TensorStyle, pickle_bytes};

#[test]
fn what_once_crashed_does_not() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crashes");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let Ok(value) = Reader::new().read(&path) else { continue };
        for protocol in [Protocol::Two, Protocol::Four, Protocol::Five] {
            let style = PickleStyle { protocol, tensors: TensorStyle::Torch };
            let Ok(written) = pickle_bytes(&value, style) else { continue };
            let again = Reader::new().read_bytes(written);
            assert!(again.is_ok(), "{}: {}", path.display(), again.unwrap_err());
        }
    }
}
