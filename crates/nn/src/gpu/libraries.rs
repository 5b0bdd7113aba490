//! Finding CUDA's libraries, before anything uses them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::error::GpuError;

/// Where things lie that are not where the system looks.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Folders with CUDA's libraries, in the order they are tried.
    pub library_folders: Vec<PathBuf>,
    /// The folder for compiled kernels; without one they are compiled each time.
    pub kernel_cache: Option<PathBuf>,
}

static PLACES: OnceLock<Places> = OnceLock::new();

/// Says where things lie, once for the whole process and before a GPU is first asked for. `false` if it was said before.
pub fn set_places(places: Places) -> bool {
    PLACES.set(places).is_ok()
}

pub(super) fn places() -> &'static Places {
    PLACES.get_or_init(Places::default)
}

/// The libraries that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// NVIDIA's driver.
    Driver,
    /// The compiler of kernels.
    Nvrtc,
    /// Matrix products.
    CublasLt,
}

impl Library {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Driver, Self::Nvrtc, Self::CublasLt];

    /// What its files are called, without `.so` and what follows.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Driver => "libcuda",
            Self::Nvrtc => "libnvrtc",
            Self::CublasLt => "libcublasLt",
        }
    }

    /// Whether the loader finds it by name, as the bindings will ask for it.
    fn loads(self) -> bool {
        // SAFETY: only loads a library by its name; NVIDIA's have no initialisers that could do harm.
        unsafe {
            match self {
                Self::Driver => cudarc::driver::sys::is_culib_present(),
                Self::Nvrtc => cudarc::nvrtc::sys::is_culib_present(),
                Self::CublasLt => cudarc::cublaslt::sys::is_culib_present(),
            }
        }
    }

    /// Loads it, from the folders of [`Places`] if the system does not know it.
    ///
    /// # Errors
    /// When it is nowhere.
    pub(super) fn load(self) -> Result<(), GpuError> {
        static LOADED: Mutex<[bool; 3]> = Mutex::new([false; 3]);
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        let index = self as usize;
        if loaded[index] {
            return Ok(());
        }
        if !self.loads() {
            // The driver belongs to the system; no package has another one.
            let folders = if self == Self::Driver { &[][..] } else { &places().library_folders[..] };
            folders.iter().find(|folder| self.load_from(folder));
            if !self.loads() {
                return Err(match self {
                    Self::Driver => GpuError::NoDriver,
                    Self::Nvrtc | Self::CublasLt => GpuError::NoLibrary { name: self.name() },
                });
            }
        }
        if self == Self::Driver {
            check_driver()?;
        }
        loaded[index] = true;
        Ok(())
    }

    /// Loads it from a folder, and stays loaded: the bindings then find it by its name.
    fn load_from(self, folder: &Path) -> bool {
        let mut files = files_of(folder, self.name());
        if files.is_empty() {
            return false;
        }
        if self == Self::Nvrtc {
            // Asked for by name when something is compiled, and its folder may not be where the loader looks.
            files.splice(0..0, files_of(folder, "libnvrtc-builtins"));
        }
        if self == Self::CublasLt {
            files.truncate(1);
        }
        files.iter().map(|file| stay_loaded(file)).fold(false, |any, loaded| any | loaded)
    }
}

/// The files of a library in a folder: `NAME.so`, `NAME.so.13`.
fn files_of(folder: &Path, name: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let prefix = format!("{name}.so");
    let is_it = |file: &OsStr| {
        file.to_str().and_then(|file| file.strip_prefix(&prefix)).is_some_and(|rest| {
            rest.is_empty()
                || (rest.starts_with('.') && rest[1..].chars().all(|c| c.is_ascii_digit() || c == '.'))
        })
    };
    let mut files: Vec<PathBuf> =
        entries.flatten().filter(|entry| is_it(&entry.file_name())).map(|entry| entry.path()).collect();
    files.sort();
    files
}

#[cfg(unix)]
fn stay_loaded(file: &Path) -> bool {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
    // SAFETY: a library of NVIDIA's, by its name; its initialisers do no harm.
    let library = unsafe { Library::open(Some(file), RTLD_NOW | RTLD_GLOBAL) };
    library.map(std::mem::forget).is_ok()
}

#[cfg(not(unix))]
fn stay_loaded(file: &Path) -> bool {
    // SAFETY: a library of NVIDIA's, by its name; its initialisers do no harm.
    let library = unsafe { libloading::Library::new(file) };
    library.map(std::mem::forget).is_ok()
}

/// The driver's functions that are called. The bindings panic if one is missing.
const DRIVER_FUNCTIONS: &[&str] = &[
    "cuInit",
    "cuDriverGetVersion",
    "cuDeviceGet",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDeviceTotalMem_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuMemGetInfo_v2",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemAllocAsync",
    "cuMemFreeAsync",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemsetD8Async",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuModuleGetFunction",
    "cuFuncSetAttribute",
    "cuLaunchKernel",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuEventQuery",
    "cuEventDestroy_v2",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuGraphExecDestroy",
    "cuGraphDestroy",
];

/// Whether the driver, which is loaded, has a function.
pub(super) fn driver_has(function: &str) -> bool {
    // SAFETY: it is loaded already, or the loader finds it under this name; the address is not called here.
    unsafe {
        let library = cudarc::driver::sys::culib();
        library.get::<*const ()>(function.as_bytes()).is_ok()
    }
}

fn check_driver() -> Result<(), GpuError> {
    match DRIVER_FUNCTIONS.iter().find(|function| !driver_has(function)) {
        Some(function) => Err(GpuError::OldDriver { function }),
        None => Ok(()),
    }
}

/// A library that was found, or was not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundLibrary {
    /// Which.
    pub library: Library,
    /// Its version, if it is there and says so.
    pub version: Option<String>,
    /// Where it was loaded from.
    pub path: Option<PathBuf>,
    /// Why it cannot be used.
    pub problem: Option<String>,
}

impl FoundLibrary {
    /// Looks for a library.
    #[must_use]
    pub fn look_for(library: Library) -> Self {
        let problem = library.load().err().map(|error| error.to_string());
        let version = problem.is_none().then(|| version(library)).flatten();
        let path = problem.is_none().then(|| path_of(library.name())).flatten();
        Self { library, version, path, problem }
    }
}

/// The version of a library that is loaded.
fn version(library: Library) -> Option<String> {
    match library {
        Library::Driver => driver_version().map(|[major, minor]| format!("CUDA {major}.{minor}")),
        Library::Nvrtc => super::modules::compiler_version().map(|(major, minor)| format!("{major}.{minor}")),
        Library::CublasLt => {
            // SAFETY: it is loaded, and the function takes nothing.
            let number = unsafe { cudarc::cublaslt::sys::cublasLtGetVersion() };
            // 130100 is 13.1.0, and 12.8.4 is 120804.
            Some(format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100))
        }
    }
}

/// The version of CUDA that the driver, which is loaded, knows.
fn driver_version() -> Option<[i32; 2]> {
    let mut number = 0;
    // SAFETY: it is loaded, and writes one number.
    let answer = unsafe { cudarc::driver::sys::cuDriverGetVersion(&raw mut number) };
    answer.result().ok().map(|()| [number / 1000, number % 1000 / 10])
}

/// The file that a library was loaded from, as the system has it.
fn path_of(name: &str) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let mut paths = maps.lines().filter_map(|line| line.find('/').map(|at| PathBuf::from(&line[at..])));
    let prefix = format!("{name}.so");
    let is_it = |path: &PathBuf| {
        path.file_name().and_then(OsStr::to_str).is_some_and(|file| file.starts_with(&prefix))
    };
    paths.find(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_library_are_told_from_others() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "libnvrtc.so.13",
            "libnvrtc.so",
            "libnvrtc-builtins.so.13.0",
            "libnvrtc.so.alt",
            "libnvrtc_static.a",
            "libcublas.so.13",
        ] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let names = |name| {
            let files = files_of(folder.path(), name);
            files
                .iter()
                .map(|file| file.file_name().unwrap().to_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(names("libnvrtc"), ["libnvrtc.so", "libnvrtc.so.13"]);
        assert_eq!(names("libnvrtc-builtins"), ["libnvrtc-builtins.so.13.0"]);
        assert!(names("libcublasLt").is_empty() && files_of(Path::new("/no/such"), "libnvrtc").is_empty());
    }

    /// Whatever this machine has: an answer, no panic.
    #[test]
    fn libraries_are_found_or_their_absence_is_said() {
        for library in Library::ALL {
            let found = FoundLibrary::look_for(library);
            assert_eq!(found.problem.is_none(), library.load().is_ok());
            if let Some(problem) = found.problem {
                assert!(problem.contains(library.name()) || problem.contains("driver"), "{problem}");
            }
        }
    }
}
