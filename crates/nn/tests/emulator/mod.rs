//! The kernels of dense networks on the CPU, thread by thread, where there is a C++ compiler: what they compute can be tested
//! without a GPU. What a GPU alone can show (that threads wait where they must, and speed) is checked by `bench/gpu`.

#![allow(clippy::unwrap_used)]

use std::ffi::{CString, c_char, c_int};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use libloading::Library;
use plaudit_nn::dense::gpu::{GpuKernels, KERNELS, KernelRunner, Launch, WORDS};
use plaudit_nn::gpu::GpuError;

const EMULATOR: &str = include_str!("emulator.cpp");

type Emulate = unsafe extern "C" fn(*const c_char, *const u64, *const u64) -> c_int;

/// Kernels that are emulated; nothing where there is no compiler.
pub(crate) fn emulated() -> Option<GpuKernels> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    let library = LIBRARY.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        compile(folder.path())
    });
    let Some(library) = library else {
        eprintln!("skipped: no C++ compiler on this machine");
        return None;
    };
    // SAFETY: the emulator has this function, of this type.
    let emulate = unsafe { *library.get::<Emulate>(b"emulate").unwrap() };
    let emulator = Emulator { emulate, memory: Vec::new(), recorded: Vec::new() };
    Some(GpuKernels::with_runner(Box::new(emulator)).unwrap())
}

fn compile(folder: &Path) -> Option<Library> {
    let (source, library) = (folder.join("emulator.cpp"), folder.join("emulator.so"));
    std::fs::write(folder.join("kernels.cu"), KERNELS).unwrap();
    std::fs::write(&source, EMULATOR).unwrap();
    let mut compiler = Command::new("c++");
    compiler.args(["-std=c++17", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-w"]);
    compiler.arg(format!("-DWORDS={WORDS}"));
    let made = compiler.arg("-o").arg(&library).arg(&source).arg("-ldl").output().ok()?;
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    // SAFETY: loading runs nothing but what was just compiled.
    Some(unsafe { Library::new(&library) }.unwrap())
}

struct Emulator {
    emulate: Emulate,
    memory: Vec<Vec<u64>>,
    recorded: Vec<Vec<Launch>>,
}

impl KernelRunner for Emulator {
    fn name(&self) -> String {
        "an emulated GPU".into()
    }

    fn alloc(&mut self, bytes: usize) -> Result<u64, GpuError> {
        // Doubled, for addresses that any vector may have.
        let memory = vec![0u64; bytes.div_ceil(8) + 2];
        let address = (memory.as_ptr() as u64).next_multiple_of(16);
        self.memory.push(memory);
        Ok(address)
    }

    unsafe fn write(&mut self, parts: &[(u64, &[u8])]) -> Result<(), GpuError> {
        for (to, part) in parts {
            // SAFETY: there is room, as callers promise.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), *to as *mut u8, part.len()) };
        }
        Ok(())
    }

    unsafe fn read(&mut self, parts: &mut [(u64, &mut [u8])]) -> Result<(), GpuError> {
        for (from, into) in parts {
            // SAFETY: as much is there, as callers promise.
            unsafe { std::ptr::copy_nonoverlapping(*from as *const u8, into.as_mut_ptr(), into.len()) };
        }
        Ok(())
    }

    unsafe fn launch(&mut self, launch: &Launch) -> Result<(), GpuError> {
        let name = CString::new(launch.kernel).unwrap();
        let blocks = launch.blocks.map(|blocks| blocks as u64);
        // SAFETY: the words are those of the kernel, as callers promise.
        let answer = unsafe { (self.emulate)(name.as_ptr(), blocks.as_ptr(), launch.words.as_ptr()) };
        assert_eq!(answer, 0, "no kernel `{}`", launch.kernel);
        Ok(())
    }

    fn record(&mut self, launches: &[Launch]) -> Result<usize, GpuError> {
        self.recorded.push(launches.to_vec());
        Ok(self.recorded.len() - 1)
    }

    unsafe fn run(&mut self, recorded: usize) -> Result<(), GpuError> {
        for launch in self.recorded[recorded].clone() {
            // SAFETY: as callers promise.
            unsafe { self.launch(&launch)? };
        }
        Ok(())
    }

    fn forget(&mut self) {
        self.recorded.clear();
    }
}
