//! Where models compute: what a user asks for, and what this machine has.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use clap::Args;
use plaudit_nn::classifier::{Arch, ClassifierSettings, Device, Precision};
use plaudit_nn::gpu::{self, GpuError, Library, Places};

use crate::console;

/// What a user asks for: `auto`, `cpu`, `cuda` or `cuda:N`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// A GPU if there is one that can be used, which is then faster; or else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The GPU of a number.
    Cuda(usize),
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse().ok().map(Self::Cuda);
        let choice = match text {
            "auto" => Some(Self::Auto),
            "cpu" => Some(Self::Cpu),
            "cuda" => Some(Self::Cuda(0)),
            _ => text.strip_prefix("cuda:").and_then(number),
        };
        choice.ok_or_else(|| format!("`{text}` is no device: give auto, cpu, cuda or cuda:N"))
    }
}

impl std::fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}

/// What a model needs on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuWork {
    /// Scoring with an image classifier, or training it.
    Classifier,
    /// Scoring with a vision-language model, or training its adapters.
    VisionLanguage,
    /// Training a policy on images.
    Policy,
}

impl GpuWork {
    fn libraries(self) -> &'static [Library] {
        match self {
            Self::Classifier | Self::Policy => &[Library::Nvrtc],
            Self::VisionLanguage => &[Library::Nvrtc, Library::CublasLt],
        }
    }

    /// Why a free choice is a GPU, as `bench/gpu/README.md` measured it.
    fn why_gpu(self) -> &'static str {
        match self {
            Self::Classifier => "it scores and learns from images faster than the CPU, from one image on",
            Self::VisionLanguage => "it runs vision-language models faster than the CPU",
            Self::Policy => "it learns policies on images faster than the CPU",
        }
    }
}

/// Whether the CPU scores so many images at once before a GPU has. Measured beside an H200 (`bench/gpu/README.md`): in fp32, which has no tensor
/// cores there, small networks on up to three images; in bf16 never.
pub(crate) fn cpu_scores_faster(
    settings: &ClassifierSettings,
    images_at_once: usize,
    threads: usize,
) -> bool {
    const IMAGES: usize = 3;
    const THREADS: usize = 16;
    const PIXELS: usize = 128 * 128;
    let [_, height, width] = settings.image_size;
    let is_such_a_network = match settings.arch {
        Arch::Resnet18 => height * width <= PIXELS,
        // Level on one image, or not timed, or faster on the GPU.
        Arch::Resnet10
        | Arch::Resnet10Spatial
        | Arch::Resnet34
        | Arch::Resnet50
        | Arch::Resnet101
        | Arch::Resnet152 => false,
    };
    let is_fp32 = settings.precision == Precision::Fp32;
    is_fp32 && is_such_a_network && images_at_once <= IMAGES && threads >= THREADS
}

/// Says why a free choice is the CPU, where there is a GPU.
pub(crate) fn say_cpu(work: &str, why: &str) {
    if gpu::count().is_ok_and(|count| count > 0) {
        say_once(&format!("{work} on the CPU and not on the GPU (device auto: {why})"));
    }
}

impl DeviceChoice {
    /// Where the choice is free, the GPU that a placement names, if there is one of that number.
    #[must_use]
    pub fn or_placed(self, place: Option<usize>) -> Self {
        let is_there = |index: &usize| *index > 0 && gpu::count().is_ok_and(|count| *index < count);
        match (self, place.filter(is_there)) {
            (Self::Auto, Some(index)) => Self::Cuda(index),
            _ => self,
        }
    }

    /// Begins to open the GPU that this may come to, while something else is done.
    pub fn open_early(self) {
        match self {
            Self::Cpu => (),
            Self::Auto => gpu::open_early(0),
            Self::Cuda(index) => gpu::open_early(index),
        }
    }

    /// The device. One that was chosen here, and not by the user, is said once.
    ///
    /// # Errors
    /// When a GPU was asked for and cannot be used.
    pub fn resolve(self, work: GpuWork) -> Result<Device, GpuError> {
        match self {
            Self::Cpu => Ok(Device::Cpu),
            Self::Cuda(index) => gpu::usable(index, work.libraries()).map(|_| Device::Cuda(index)),
            Self::Auto => Ok(match gpu::usable(0, work.libraries()) {
                Ok(found) => {
                    say_once(&format!("computing on {} (device auto: {})", found.name, work.why_gpu()));
                    Device::Cuda(0)
                }
                Err(_) => Device::Cpu,
            }),
        }
    }
}

fn say_once(line: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(line.to_owned()) {
        console::eprintln(line);
    }
}

/// Where a command computes.
#[derive(Debug, Clone, Default, Args)]
pub struct DeviceArgs {
    /// Where to compute: auto, cpu, cuda or cuda:N; auto takes the GPU if there is one [default: auto]
    #[arg(long, value_name = "DEVICE", help_heading = None::<&str>)]
    device: Option<DeviceChoice>,
    /// An older spelling of --device cuda:N
    #[arg(long, value_name = "N", hide = true, conflicts_with = "device")]
    gpu: Option<usize>,
}

impl DeviceArgs {
    /// What the user asks for.
    pub fn choice(&self) -> DeviceChoice {
        let older = self.gpu.map(DeviceChoice::Cuda);
        self.device.or(older).unwrap_or_default()
    }
}

/// What to do about a GPU that cannot be used.
pub const GPU_HELP: &str = "`plaudit device` shows what was found; --device cpu computes on the CPU";

/// Says where CUDA's libraries may lie and where compiled kernels are kept; see docs/gpu.md.
pub fn set_places() {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let toolkits = ["CUDA_PATH", "CUDA_HOME"].into_iter().filter_map(variable);
    let toolkits = toolkits.chain([PathBuf::from("/usr/local/cuda")]);
    let mut library_folders: Vec<PathBuf> = toolkits
        .flat_map(|root| ["lib64", "lib", "targets/x86_64-linux/lib"].map(|folder| root.join(folder)))
        .collect();
    let activated = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(variable);
    let path = variable("PATH").map(PathBuf::into_os_string).unwrap_or_default();
    for prefix in activated.chain(python_on(&path)) {
        library_folders.extend(package_folders(&prefix));
    }
    library_folders.retain(|folder| folder.is_dir());
    let cache = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
    let kernel_cache = cache.map(|cache| cache.join("plaudit").join("kernels"));
    gpu::set_places(Places { library_folders, kernel_cache });
}

/// Where the first Python of a search path is installed.
fn python_on(path: &std::ffi::OsStr) -> Option<PathBuf> {
    let has_python = |folder: &PathBuf| folder.join("python3").exists() || folder.join("python").exists();
    std::env::split_paths(path).find(has_python)?.parent().map(Path::to_path_buf)
}

/// The folders of NVIDIA's packages in a Python: `lib/python3.12/site-packages/nvidia/*/lib`.
fn package_folders(prefix: &Path) -> Vec<PathBuf> {
    let entries = |folder: PathBuf| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut entries: Vec<PathBuf> = entries.collect();
        entries.sort();
        entries
    };
    let is_python = |folder: &PathBuf| {
        folder.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("python3"))
    };
    let pythons = entries(prefix.join("lib")).into_iter().filter(is_python);
    let packages = pythons
        .flat_map(|python| ["site-packages", "dist-packages"].map(|name| python.join(name).join("nvidia")));
    packages.flat_map(entries).map(|package| package.join("lib")).filter(|folder| folder.is_dir()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_words() {
        for (text, choice) in [
            ("auto", Some(DeviceChoice::Auto)),
            ("cpu", Some(DeviceChoice::Cpu)),
            ("cuda", Some(DeviceChoice::Cuda(0))),
            ("cuda:3", Some(DeviceChoice::Cuda(3))),
            ("cuda:", None),
            ("cuda:-1", None),
            ("gpu", None),
            ("", None),
        ] {
            assert_eq!(text.parse().ok(), choice, "{text}");
            assert_eq!(choice.map(|choice| choice.to_string().parse()), choice.map(Ok), "{text}");
        }
        assert!("gpu".parse::<DeviceChoice>().unwrap_err().contains("cuda:N"));
    }

    #[test]
    fn a_gpu_that_is_not_there_is_refused_unless_the_choice_is_free() {
        let refused = DeviceChoice::Cuda(9999).resolve(GpuWork::Classifier).unwrap_err().to_string();
        assert!(refused.contains("CPU") || refused.contains("CUDA"), "{refused}");
        assert!(DeviceChoice::Auto.resolve(GpuWork::VisionLanguage).is_ok());
        assert_eq!(DeviceChoice::Cpu.resolve(GpuWork::Classifier).unwrap(), Device::Cpu);
        assert_eq!(DeviceChoice::Auto.or_placed(Some(9999)), DeviceChoice::Auto);
        assert_eq!(DeviceChoice::Cpu.or_placed(Some(0)), DeviceChoice::Cpu);
    }

    #[test]
    fn few_images_of_a_small_network_in_fp32_stay_on_a_large_cpu() {
        let of = |arch, precision, side| ClassifierSettings {
            arch,
            precision,
            image_size: [3, side, side],
            ..ClassifierSettings::default()
        };
        let small = of(Arch::Resnet18, Precision::Fp32, 128);
        assert!(cpu_scores_faster(&small, 1, 16) && cpu_scores_faster(&small, 3, 64));
        assert!(!cpu_scores_faster(&small, 4, 16) && !cpu_scores_faster(&small, 1, 8));
        for other in [
            of(Arch::Resnet18, Precision::Bf16, 128),
            of(Arch::Resnet50, Precision::Fp32, 128),
            of(Arch::Resnet10, Precision::Fp32, 128),
            of(Arch::Resnet18, Precision::Fp32, 224),
        ] {
            assert!(!cpu_scores_faster(&other, 1, 16), "{other:?}");
        }
    }

    #[test]
    fn packages_of_a_python_are_found() {
        let prefix = tempfile::tempdir().unwrap();
        let packages = prefix.path().join("lib/python3.12/site-packages/nvidia");
        for folder in ["cu13/lib", "cublas/lib", "cublas/include"] {
            std::fs::create_dir_all(packages.join(folder)).unwrap();
        }
        assert_eq!(package_folders(prefix.path()), [packages.join("cu13/lib"), packages.join("cublas/lib")]);
        std::fs::create_dir_all(prefix.path().join("bin")).unwrap();
        std::fs::write(prefix.path().join("bin/python3"), "").unwrap();
        assert_eq!(python_on(prefix.path().join("bin").as_os_str()).unwrap(), prefix.path());
        assert_eq!(python_on(std::ffi::OsStr::new("/no/such")), None);
    }
}
