#![no_main]
mod check;

const START: &[u8] = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.";

// Whole streams as they are; anything else behind the magic number, as a file and inside a plain pickle.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let stream = if bytes.starts_with(START) { bytes.to_vec() } else { [START, bytes].concat() };
    check::check(&stream);
    let head = b"ctorch._utils\n_rebuild_tensor_v2\n(ctorch.storage\n_load_from_bytes\nB";
    let tail = b"\x85RK\0K\x02\x85K\x01\x85\x89}tR.";
    check::check(&[head, &(stream.len() as u32).to_le_bytes()[..], &stream, tail].concat());
});
