#![no_main]
mod check;
mod forge;

// Whole archives as they are; anything else as the pickle of one.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if bytes.starts_with(b"PK") {
        return check::check(bytes);
    }
    let order: &[u8] = if bytes.len() % 2 == 0 { b"little" } else { b"big" };
    let storage = [7; 64];
    check::check(&forge::zip(&[
        ("a/data.pkl", bytes, false),
        ("a/byteorder", order, false),
        ("a/data/0", &storage, false),
        ("a/data/1", &storage[..16], false),
    ]));
});
