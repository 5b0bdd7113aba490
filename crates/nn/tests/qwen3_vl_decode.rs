//! The attention of tokens over kept keys and values, by the GPU's kernels on the CPU, where there is a C++ compiler. What a GPU alone can show
//! (that threads wait where they must, and speed) is checked by `examples/qwen3_vl_cuda`.

#![allow(unsafe_code, clippy::unwrap_used, clippy::print_stderr)] // the emulator is a library of C++

use std::path::Path;
use std::process::Command;

use half::bf16;
use libloading::Library;

const EMULATOR: &str = include_str!("emulator/decode.cpp");
const KERNELS: &str = include_str!("../src/qwen3_vl/gpu/decode.cu");

type Decode = unsafe extern "C" fn(
    *const bf16,
    i32,
    *const bf16,
    *const bf16,
    i32,
    i32,
    i32,
    *const i32,
    *const i32,
    i32,
    i32,
    i32,
    f32,
    *mut f32,
    *mut bf16,
);

/// The kernels for heads of so many numbers; nothing where there is no compiler.
fn compile(folder: &Path, head_width: usize) -> Option<Library> {
    let (source, library) = (folder.join("decode.cpp"), folder.join(format!("decode_{head_width}.so")));
    std::fs::write(folder.join("decode.cu"), KERNELS).unwrap();
    std::fs::write(&source, EMULATOR).unwrap();
    let mut compiler = Command::new("c++");
    compiler.args(["-std=c++17", "-O1", "-shared", "-fPIC", "-w"]);
    compiler.arg(format!("-DTEXT_HALF={}", head_width / 2));
    let made = compiler.arg("-o").arg(&library).arg(&source).output().ok()?;
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    // SAFETY: loading runs nothing but what was just compiled.
    Some(unsafe { Library::new(&library) }.unwrap())
}

/// Sixteen-byte words, so that rows begin where vectors may.
#[derive(Clone, Copy)]
#[repr(align(16))]
struct Aligned([bf16; 8]);

fn aligned(numbers: &[bf16]) -> Vec<Aligned> {
    numbers.chunks_exact(8).map(|eight| Aligned(eight.try_into().unwrap())).collect()
}

fn random(seed: &mut u64) -> bf16 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    bf16::from_f32(((*seed >> 40) as f32 / (1 << 24) as f32 - 0.5) * 4.0)
}

/// What one head sees: the mean of values, weighted by the exponentials of scores.
fn attend(query: &[bf16], keys: &[&[bf16]], values: &[&[bf16]]) -> Vec<f64> {
    let dot = |key: &&[bf16]| {
        let products = query.iter().zip(*key).map(|(a, b)| a.to_f64() * b.to_f64());
        products.sum::<f64>() / (query.len() as f64).sqrt()
    };
    let scores: Vec<f64> = keys.iter().map(dot).collect();
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
    let total: f64 = weights.iter().sum();
    let number = |i: usize| {
        values.iter().zip(&weights).map(|(value, weight)| value[i].to_f64() * weight).sum::<f64>() / total
    };
    (0..query.len()).map(number).collect()
}

#[test]
fn kept_keys_are_attended_to_whatever_they_are_split_into() {
    let folder = tempfile::tempdir().unwrap();
    let (kv_heads, group) = (2, 3);
    let heads = kv_heads * group;
    for head_width in [16, 80, 128] {
        let Some(library) = compile(folder.path(), head_width) else {
            eprintln!("skipped: no C++ compiler on this machine");
            return;
        };
        // SAFETY: the emulator has this function, of this type.
        let decode = unsafe { *library.get::<Decode>(b"decode").unwrap() };
        // Sequences with room between them; what is there must not be read.
        let (starts, lengths) = ([3, 140, 280, 281, 600], [128, 129, 1, 300, 17]);
        let width = 2 * kv_heads * head_width;
        let mut seed = head_width as u64;
        let mut kept = vec![bf16::NAN; 700 * width];
        for (start, length) in starts.iter().zip(lengths) {
            let rows = *start as usize * width..(start + length) as usize * width;
            kept[rows].fill_with(|| random(&mut seed));
        }
        // Queries lie before keys and values of the same token, which this does not read.
        let stride = heads * head_width + width;
        let mut queries = vec![bf16::NAN; starts.len() * stride];
        for row in queries.chunks_exact_mut(stride) {
            row[..heads * head_width].fill_with(|| random(&mut seed));
        }
        for (splits, keys_per_split) in [(1, 384), (3, 128), (2, 256)] {
            let (kept_there, queries_there) = (aligned(&kept), aligned(&queries));
            let mut parts = vec![f32::NAN; starts.len() * heads * splits * (head_width + 2)];
            let mut out = aligned(&vec![bf16::NAN; starts.len() * heads * head_width]);
            let keys = kept_there.as_ptr().cast::<bf16>();
            let scale = std::f32::consts::LOG2_E / (head_width as f32).sqrt();
            // SAFETY: there are as many numbers as the sizes say.
            unsafe {
                decode(
                    queries_there.as_ptr().cast(),
                    stride as i32,
                    keys,
                    keys.add(kv_heads * head_width),
                    width as i32,
                    heads as i32,
                    group as i32,
                    starts.as_ptr(),
                    lengths.as_ptr(),
                    starts.len() as i32,
                    splits as i32,
                    keys_per_split,
                    scale,
                    parts.as_mut_ptr(),
                    out.as_mut_ptr().cast(),
                );
            }
            let found: Vec<f64> = out.iter().flat_map(|eight| eight.0).map(bf16::to_f64).collect();
            for (sequence, (start, length)) in starts.iter().zip(lengths).enumerate() {
                for head in 0..heads {
                    let row = |at: i32, column: usize| {
                        &kept[at as usize * width + column + head / group * head_width..][..head_width]
                    };
                    let rows = *start..start + length;
                    let keys: Vec<_> = rows.clone().map(|at| row(at, 0)).collect();
                    let values: Vec<_> = rows.map(|at| row(at, kv_heads * head_width)).collect();
                    let query = &queries[sequence * stride + head * head_width..][..head_width];
                    let found = &found[(sequence * heads + head) * head_width..][..head_width];
                    for (found, expected) in found.iter().zip(attend(query, &keys, &values)) {
                        // A bf16 number has eight bits.
                        let is_close = (found - expected).abs() <= expected.abs() / 250.0 + 1e-4;
                        assert!(
                            is_close,
                            "{head_width} {splits} {sequence} {head}: {found}, expected {expected}"
                        );
                    }
                }
            }
        }
    }
}
