//! `plaudit device`: what models can compute on here.

use std::fmt::Write as _;

use clap::Args;
use plaudit_nn::gpu::{self, GpuInfo, SelfTest, Survey};
use plaudit_nn::kernels::{Isa, Precision};
use serde_json::{Value, json};

use crate::console;
use crate::failure::Failure;

/// Show what models can compute on: the CPU's vector unit, GPUs, CUDA's libraries
///
/// Says which GPUs there are, their memory, the driver, which libraries of CUDA were found and where, and how fast each GPU
/// multiplies matrices in a short self-test. Without a GPU it says what is missing. See docs/gpu.md.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit device
  plaudit device --json --no-test")]
pub struct Command {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Leave the self-test out
    #[arg(long)]
    no_test: bool,
}

/// A GPU, and what its self-test gave.
struct Tested<'a> {
    gpu: &'a GpuInfo,
    test: Option<Result<SelfTest, String>>,
}

impl Command {
    /// Looks and prints.
    pub fn run(self) -> Result<(), Failure> {
        let survey = gpu::survey();
        let test = |gpu: &GpuInfo| {
            let wanted = !self.no_test && gpu.is_supported();
            wanted.then(|| gpu::self_test(gpu.index).map_err(|error| error.to_string()))
        };
        let gpus: Vec<Tested<'_>> = survey.gpus.iter().map(|gpu| Tested { gpu, test: test(gpu) }).collect();
        match self.json {
            true => console::print(&format!("{:#}\n", as_json(&survey, &gpus))),
            false => console::print(&page(&survey, &gpus)),
        }
    }
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn gibibytes(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

fn page(survey: &Survey, gpus: &[Tested<'_>]) -> String {
    let [single, half] = [Precision::F32, Precision::Bf16].map(|precision| Isa::best(precision).name());
    let mut page = format!("CPU          {} threads; fp32 by {single}, bf16 by {half}\n", threads());
    for Tested { gpu, test } in gpus {
        let (major, minor) = gpu.capability;
        let _ = writeln!(
            page,
            "cuda:{:<8}{}, {:.1} GiB, compute capability {major}.{minor}, {} multiprocessors",
            gpu.index,
            gpu.name,
            gibibytes(gpu.memory),
            gpu.multiprocessors
        );
        let tested = match test {
            Some(Ok(test)) => format!(
                "self-test: {:.0} TFLOP/s (bf16 matrix products); {:.1} GiB free",
                test.flops / 1e12,
                gibibytes(test.free)
            ),
            Some(Err(problem)) => format!("self-test: {problem}"),
            None if gpu.is_supported() => continue,
            None => "too old: compute capability 8.0 (Ampere) or more is needed".into(),
        };
        let _ = writeln!(page, "             {tested}");
    }
    if gpus.is_empty() {
        let why = survey.problem.as_deref().unwrap_or("the driver lists none");
        let _ = writeln!(page, "no GPU       {why}");
    }
    if let Some(release) = &survey.driver_release {
        let _ = writeln!(page, "driver       {release}");
    }
    for library in &survey.libraries {
        let name = library.library.name();
        let found = match &library.problem {
            Some(_) => "not found".to_owned(),
            None => {
                let path = library.path.as_ref().map(|path| format!("  {}", path.display()));
                format!("{}{}", library.version.as_deref().unwrap_or("found"), path.unwrap_or_default())
            }
        };
        let _ = writeln!(page, "{name:<13}{found}");
    }
    page
}

fn as_json(survey: &Survey, gpus: &[Tested<'_>]) -> Value {
    let gpu = |Tested { gpu, test }: &Tested<'_>| {
        let (major, minor) = gpu.capability;
        let mut value = json!({
            "device": format!("cuda:{}", gpu.index),
            "name": gpu.name,
            "memory_bytes": gpu.memory,
            "compute_capability": format!("{major}.{minor}"),
            "multiprocessors": gpu.multiprocessors,
            "supported": gpu.is_supported(),
        });
        match test {
            Some(Ok(test)) => {
                value["bf16_tflops"] = json!(test.flops / 1e12);
                value["free_bytes"] = json!(test.free);
            }
            Some(Err(problem)) => value["problem"] = json!(problem),
            None => {}
        }
        value
    };
    let libraries = survey.libraries.iter().map(|library| {
        json!({
            "name": library.library.name(),
            "version": library.version,
            "path": library.path,
            "problem": library.problem,
        })
    });
    json!({
        "cpu": {
            "threads": threads(),
            "fp32": Isa::best(Precision::F32).name(),
            "bf16": Isa::best(Precision::Bf16).name(),
        },
        "gpus": gpus.iter().map(gpu).collect::<Vec<_>>(),
        "problem": survey.problem,
        "driver": survey.driver_release,
        "libraries": libraries.collect::<Vec<_>>(),
    })
}
