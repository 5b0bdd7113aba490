#![no_main]
mod check;
mod forge;

// Whole archives as they are; anything else as two members of one.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if bytes.starts_with(b"PK") {
        return check::check(bytes);
    }
    let (deflate, bytes) = bytes.split_first().map_or((false, bytes), |(first, rest)| (first % 2 == 1, rest));
    check::check(&forge::zip(&[("a.npy", bytes, deflate), ("b.npy", bytes, !deflate)]));
});
