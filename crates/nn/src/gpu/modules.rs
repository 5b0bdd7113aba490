//! Kernels: compiled by NVRTC for the GPU at hand, and kept on disk so that this happens once.

use std::ffi::{CStr, CString};
use std::path::Path;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaModule};
use cudarc::nvrtc::{Ptx, result, sys};
use plaudit_pyfiles::AtomicFile;

use super::error::GpuError;
use super::libraries::{Library, places};

/// The source of some kernels.
#[derive(Clone, Debug)]
pub(crate) struct KernelSource {
    /// What it is called, in messages and on disk.
    pub(crate) name: &'static str,
    pub(crate) source: &'static str,
    /// Preprocessor definitions: `NAME` or `NAME=VALUE`.
    pub(crate) defines: Vec<String>,
}

/// What a source is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Target {
    /// Of a compute capability: 90 is 9.0.
    capability: i32,
    /// Machine code; or else text that the driver compiles further, for a GPU that the compiler does not know yet.
    is_machine_code: bool,
}

impl Target {
    /// For a GPU, by what the compiler knows, which is in ascending order.
    fn choose(capability: i32, known: &[i32]) -> Option<Self> {
        match known.contains(&capability) {
            true => Some(Self { capability, is_machine_code: true }),
            false => {
                let below = known.iter().copied().filter(|known| *known < capability).max();
                below.map(|capability| Self { capability, is_machine_code: false })
            }
        }
    }

    fn option(self) -> String {
        let kind = if self.is_machine_code { "sm" } else { "compute" };
        // Machine code is for this GPU alone, so that it may use what no other has.
        let own = if self.is_machine_code && self.capability == 90 { "a" } else { "" };
        format!("--gpu-architecture={kind}_{}{own}", self.capability)
    }
}

/// The version of the compiler, which is loaded.
pub(super) fn compiler_version() -> Option<(i32, i32)> {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the library is loaded, and writes two numbers.
    let answer = unsafe { sys::nvrtcVersion(&raw mut major, &raw mut minor) };
    answer.result().ok().map(|()| (major, minor))
}

/// The compute capabilities that the compiler, which is loaded, knows.
fn known_capabilities() -> Result<Vec<i32>, GpuError> {
    let mut count = 0;
    let failed = || GpuError::failed("asking the compiler for its targets");
    // SAFETY: the library is loaded, and writes one number.
    unsafe { sys::nvrtcGetNumSupportedArchs(&raw mut count) }.result().map_err(failed())?;
    let mut known = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: there is room for as many as it said.
    unsafe { sys::nvrtcGetSupportedArchs(known.as_mut_ptr()) }.result().map_err(failed())?;
    Ok(known)
}

/// Whether the compiler makes machine code for a compute capability.
pub(super) fn knows(capability: i32) -> Result<bool, GpuError> {
    Library::Nvrtc.load()?;
    Ok(known_capabilities()?.contains(&capability))
}

/// Compiles kernels for a GPU, or reads them from disk.
pub(super) fn load(
    context: &Arc<CudaContext>,
    (major, minor): (i32, i32),
    source: &KernelSource,
) -> Result<Arc<CudaModule>, GpuError> {
    Library::Nvrtc.load()?;
    let target = Target::choose(10 * major + minor, &known_capabilities()?);
    let target = target.ok_or_else(|| {
        source.refused(format!("the compiler knows no GPU of compute capability {major}.{minor}"))
    })?;
    let cache = places().kernel_cache.as_deref().map(|folder| CachedImage::of(folder, source, target));
    let image = match cache.as_ref().and_then(CachedImage::read) {
        Some(image) => image,
        None => {
            let image = compile(source, target)?;
            if let Some(cache) = &cache {
                cache.write(&image);
            }
            image
        }
    };
    context.load_module(Ptx::from_binary(image)).map_err(|error| source.refused(format!("{error:?}")))
}

impl KernelSource {
    fn refused(&self, problem: String) -> GpuError {
        GpuError::Compile { name: self.name, problem }
    }
}

/// A program of the compiler's.
struct Program(sys::nvrtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: made in `compile`, and destroyed once.
        let _ = unsafe { result::destroy_program(self.0) };
    }
}

/// Machine code, or text for the driver that ends with a zero.
fn compile(source: &KernelSource, target: Target) -> Result<Vec<u8>, GpuError> {
    let text = CString::new(source.source).map_err(|error| source.refused(error.to_string()))?;
    let name = CString::new(format!("{}.cu", source.name)).unwrap_or_default();
    let program = result::create_program(&text, Some(&name)).map(Program);
    let program = program.map_err(|error| source.refused(format!("{error:?}")))?;
    let defines = source.defines.iter().map(|define| format!("-D{define}"));
    let mut options: Vec<String> = defines.chain([target.option()]).collect();
    // On all cores; compilers of the first releases of CUDA 12 do not know how.
    options.push("--split-compile=0".into());
    // SAFETY: the program was just made, and its source and name outlive it.
    let mut compiled = unsafe { result::compile_program(program.0, &options) };
    if compiled.is_err_and(|error| error.0 == sys::nvrtcResult::NVRTC_ERROR_INVALID_OPTION) {
        options.pop();
        // SAFETY: as above.
        compiled = unsafe { result::compile_program(program.0, &options) };
    }
    if let Err(error) = compiled {
        return Err(source.refused(format!("{error:?}: {}", log(&program))));
    }
    let failed = |error: result::NvrtcError| source.refused(format!("{error:?}"));
    if !target.is_machine_code {
        // SAFETY: the program was compiled.
        let text = unsafe { result::get_ptx(program.0) }.map_err(failed)?;
        return Ok(text.into_iter().map(|byte| byte as u8).collect());
    }
    let mut size = 0;
    // SAFETY: the program was compiled to machine code; the second call has room for what the first said.
    unsafe {
        sys::nvrtcGetCUBINSize(program.0, &raw mut size).result().map_err(failed)?;
        let mut image = vec![0u8; size];
        sys::nvrtcGetCUBIN(program.0, image.as_mut_ptr().cast()).result().map_err(failed)?;
        Ok(image)
    }
}

/// What the compiler has to say.
fn log(program: &Program) -> String {
    // SAFETY: the program is alive.
    let log = unsafe { result::get_program_log(program.0) }.unwrap_or_default();
    let bytes: Vec<u8> = log.into_iter().map(|byte| byte as u8).collect();
    CStr::from_bytes_until_nul(&bytes)
        .map_or_else(|_| String::new(), |text| text.to_string_lossy().into_owned())
}

/// Compiled kernels on disk. The file's name says what they were compiled from; its first line, whether it is whole.
struct CachedImage {
    file: std::path::PathBuf,
}

const MAGIC: &str = "plaudit kernels 1";

impl CachedImage {
    fn of(folder: &Path, source: &KernelSource, target: Target) -> Self {
        let version = compiler_version().unwrap_or_default();
        let made_from =
            format!("{version:?}\0{:?}\0{}\0{}", target, source.defines.join("\0"), source.source);
        let fingerprint = fingerprint(made_from.as_bytes());
        let name = format!("{}-{}-{fingerprint:016x}.kernels", source.name, target.capability);
        Self { file: folder.join(name) }
    }

    fn read(&self) -> Option<Vec<u8>> {
        let bytes = std::fs::read(&self.file).ok()?;
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        let (line, image) = (std::str::from_utf8(&bytes[..end]).ok()?, &bytes[end + 1..]);
        (line == first_line(image)).then(|| image.to_vec())
    }

    /// Without it everything works, only later: nobody is told.
    fn write(&self, image: &[u8]) {
        if let Some(folder) = self.file.parent() {
            let _ = std::fs::create_dir_all(folder);
        }
        let line = first_line(image);
        let _ = AtomicFile::write(&self.file, [line.as_bytes(), b"\n", image]);
    }
}

fn first_line(image: &[u8]) -> String {
    format!("{MAGIC} {} {:016x}", image.len(), fingerprint(image))
}

/// FNV-1a.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Compiles kernels without a GPU; `None` where there is no compiler.
#[cfg(test)]
pub(crate) fn compile_for_tests(source: &KernelSource, capability: i32) -> Option<Result<Vec<u8>, GpuError>> {
    Library::Nvrtc.load().ok()?;
    Some(compile(source, Target { capability, is_machine_code: true }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_gets_its_own_code_or_the_nearest_below() {
        let known = [75, 80, 86, 89, 90, 100];
        let choose = |capability| Target::choose(capability, &known).map(Target::option);
        assert_eq!(choose(90).unwrap(), "--gpu-architecture=sm_90a");
        assert_eq!(choose(87).unwrap(), "--gpu-architecture=compute_86");
        assert_eq!(choose(121).unwrap(), "--gpu-architecture=compute_100");
        assert_eq!(choose(70), None);
    }

    #[test]
    fn kernels_on_disk_are_read_only_whole_and_only_for_what_they_were_made_from() {
        let folder = tempfile::tempdir().unwrap();
        let source = |source| KernelSource { name: "some", source, defines: vec!["A=1".into()] };
        let target = Target { capability: 90, is_machine_code: true };
        // The version of the compiler is asked for only where there is one.
        if Library::Nvrtc.load().is_err() {
            let cached = CachedImage { file: folder.path().join("x.kernels") };
            check_whole(&cached);
            return;
        }
        let cached = CachedImage::of(folder.path(), &source("kernel"), target);
        check_whole(&cached);
        assert!(CachedImage::of(folder.path(), &source("another"), target).read().is_none());
        let other = Target { capability: 89, ..target };
        assert!(CachedImage::of(folder.path(), &source("kernel"), other).read().is_none());
    }

    fn check_whole(cached: &CachedImage) {
        assert!(cached.read().is_none());
        let image = [1u8, 2, b'\n', 3, 0];
        cached.write(&image);
        assert_eq!(cached.read().unwrap(), image);
        let mut bytes = std::fs::read(&cached.file).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(&cached.file, &bytes).unwrap();
        assert!(cached.read().is_none(), "a bit was turned");
        std::fs::write(&cached.file, &bytes[..last]).unwrap();
        assert!(cached.read().is_none(), "it was cut short");
        cached.write(&image);
        assert_eq!(cached.read().unwrap(), image, "and is written anew");
    }
}
