//! Compressed bytes, of which somebody says how many they become: never more than that is made of them.

use std::io::Read;

/// Frames of zstd that become at most so many bytes.
pub(crate) fn zstd(bytes: &[u8], most: usize) -> Result<Vec<u8>, String> {
    let mut decoder = ruzstd::decoding::FrameDecoder::new();
    decoder.set_max_window_size((most as u64).max(1 << 23));
    let mut out = vec![0; most];
    let length = decoder.decode_all(bytes, &mut out).map_err(|error| error.to_string())?;
    out.truncate(length);
    Ok(out)
}

/// A block of LZ4 that becomes so many bytes.
pub(crate) fn lz4_block(block: &[u8], length: usize) -> Result<Vec<u8>, String> {
    let mut out = vec![0; length];
    match lz4_flex::block::decompress_into(block, &mut out) {
        Ok(found) if found == length => Ok(out),
        Ok(found) => Err(format!("it has {found} bytes, and {length} were expected")),
        Err(error) => Err(error.to_string()),
    }
}

/// Frames of LZ4 that become at most so many bytes.
pub(crate) fn lz4_frame(bytes: &[u8], most: usize) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let decoder = lz4_flex::frame::FrameDecoder::new(bytes);
    let read = decoder.take(most as u64 + 1).read_to_end(&mut out).map_err(|error| error.to_string())?;
    match read <= most {
        true => Ok(out),
        false => Err(format!("it has more than {most} bytes")),
    }
}
