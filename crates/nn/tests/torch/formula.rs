//! `formula.py` in Rust: weights and images that fixtures need not store.

#![allow(dead_code)] // each test uses what it needs

fn bits(name: &str, count: usize) -> impl Iterator<Item = u64> + use<> {
    let fnv1a = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    (0..count as u64).map(move |i| {
        let mut x = fnv1a.wrapping_add((i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    })
}

pub(crate) fn fractions(name: &str, count: usize) -> impl Iterator<Item = f64> + use<> {
    bits(name, count).map(|bits| (bits >> 40) as f64 / f64::from(1 << 23) - 1.0)
}

pub(crate) fn bytes(name: &str, count: usize) -> Vec<u8> {
    bits(name, count).map(|bits| (bits >> 56) as u8).collect()
}

/// A plausible parameter from a fraction.
pub(crate) fn number(name: &str, shape: &[usize], u: f64) -> f64 {
    let ends = |end: &str| name.ends_with(end);
    match shape {
        _ if ends("running_var") => 1.0 + 0.3 * u,
        _ if ends("running_mean") => 0.1 * u,
        _ if ends("pooling_layer.kernel") => u,
        [outputs, _, rows, columns] => u * (6.0 / (outputs * rows * columns) as f64).sqrt(),
        [_, inputs] => u * (3.0 / *inputs as f64).sqrt(),
        _ if ends("bn2.weight") || ends("bn3.weight") => 0.3 + 0.1 * u,
        _ if ends("weight") => 1.0 + 0.2 * u,
        _ => 0.1 * u,
    }
}
