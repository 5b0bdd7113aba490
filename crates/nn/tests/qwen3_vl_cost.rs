//! What a forward pass is said to need of memory, beside what it needs.
#![allow(clippy::unwrap_used)] // a test fails by panicking
#![allow(unsafe_code)] // an allocator that counts

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use plaudit_nn::classifier::{Device, Precision};
use plaudit_nn::qwen3_vl::{FrameSampling, Message, QwenVl, RgbImage, ScoreCache, VideoFormat, chat};

/// Counts bytes in use, and the most there were.
struct Counting;

static USED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = USED.fetch_add(layout.size(), Ordering::SeqCst) + layout.size();
        PEAK.fetch_max(used, Ordering::SeqCst);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Ordering::SeqCst);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/qwen3_vl/model")
}

/// Bytes that `work` needs beyond what is there before.
fn needed(work: impl FnOnce()) -> usize {
    let before = USED.load(Ordering::SeqCst);
    PEAK.store(before, Ordering::SeqCst);
    work();
    PEAK.load(Ordering::SeqCst) - before
}

#[test]
fn memory_is_estimated_from_above_and_not_by_far() {
    let model = QwenVl::open(folder(), Device::Cpu, Precision::Fp32).unwrap();
    let (processor, config) = (model.processor(), model.config());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let pixels = vec![90_u8; 512 * 512 * 3];
    let format = VideoFormat::new(2.0, FrameSampling::All);
    let words = "as it was ";
    for (text, side, frames) in [(2, 64, 2), (300, 64, 2), (2, 256, 2), (2, 512, 2), (40, 256, 12)] {
        let image = RgbImage { rgb: &pixels[..side * side * 3], height: side, width: side };
        let video = vec![image; frames];
        let prompt = chat(&[Message::user(format!("<|video_pad|>{}", words.repeat(text)))], true);
        let grid = processor.video_grid(frames, [side, side], format).unwrap();
        let size = processor.question_size(&prompt, &[grid]).unwrap();
        let visual = processor.video_as(&video, format).unwrap();
        assert_eq!(visual.grid, grid);
        let inputs = processor.encode(&prompt, vec![visual]).unwrap();
        assert!(inputs.len() <= size.tokens && size.tokens <= inputs.len() + 16 * grid[0], "{size:?}");
        let _ = model.label_logits(std::slice::from_ref(&inputs), &[1, 2]); // threads and tables are there now
        let mut cache = ScoreCache::new(1);
        let scored =
            needed(|| drop(model.score(std::slice::from_ref(&inputs), &[1, 2], &mut cache).unwrap()));
        let generated = needed(|| {
            let mut choose = |_: usize, _: &[f32]| Some(1);
            model.generate_by(std::slice::from_ref(&inputs), 8, &mut choose).unwrap();
        });
        for (found, new_tokens) in [(scored, 0), (generated, 8)] {
            let estimated = config.cost(size, new_tokens, threads).bytes;
            assert!(found <= estimated, "{size:?}: {found} bytes, estimated {estimated}");
            // Threads may not all be at work, and small questions are not what a limit is about.
            let generous = 6 * found + threads * (5 << 20);
            assert!(estimated <= generous, "{size:?}: {found} bytes, estimated {estimated}");
        }
    }
}
