//! A zip archive around the input, so that the fuzzer need not find one.

/// Stored or deflated members, with right sizes and checksums.
pub fn zip(members: &[(&str, &[u8], bool)]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, data, deflate) in members {
        let packed = if *deflate { miniz_oxide::deflate::compress_to_vec(data, 1) } else { data.to_vec() };
        let mut common: Vec<u8> = [20u16, 0, if *deflate { 8 } else { 0 }, 0, 0x21].iter().flat_map(|n| n.to_le_bytes()).collect();
        for number in [crc32fast::hash(data), packed.len() as u32, data.len() as u32] {
            common.extend(number.to_le_bytes());
        }
        common.extend((name.len() as u16).to_le_bytes());
        common.extend([0, 0]);
        directory.extend([b"PK\x01\x02\x14\0", &common[..], &[0; 10], &(out.len() as u32).to_le_bytes(), name.as_bytes()].concat());
        out.extend([b"PK\x03\x04", &common[..], name.as_bytes(), &packed].concat());
    }
    let count = (members.len() as u16).to_le_bytes();
    let numbers = [directory.len() as u32, out.len() as u32].map(u32::to_le_bytes);
    out.extend(&directory);
    out.extend([b"PK\x05\x06\0\0\0\0", &count[..], &count, &numbers[0], &numbers[1], &[0, 0]].concat());
    out
}
