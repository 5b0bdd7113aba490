//! `plaudit serve`: a reward model behind HTTP.

mod classifier;
mod judge;
mod token;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use plaudit_nn::classifier::Device;
use plaudit_reward::open::{Capabilities, ModelInput, ModelLocation};
use plaudit_serve::{Batching, Limits, Model, Server, ServerSettings, Shutdown};
use serde_json::{Map, Value, json};

use self::token::Token;
use super::reward::{PreparationArgs, probability, unopened};
use crate::cli::Verbosity;
use crate::console;
use crate::device::{DeviceArgs, DeviceChoice};
use crate::failure::Failure;
use crate::run::{interrupted, listen_for_interrupts};

/// Serve a reward model over HTTP
///
/// Speaks the OpenAI chat protocol with images (/v1/chat/completions, /v1/models) and a plain one for frames as bytes
/// (/v1/score). Requests that arrive together are answered together; when too many wait, further ones get 503 and a
/// Retry-After. /health and /metrics are for monitoring. It listens on this machine alone unless --host says
/// otherwise, and then wants a token. A judge of `reward sft` is asked as it was tuned. Ctrl-C finishes what is under way. See docs/serve.md.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit serve logs/20260801-12:00:00-reward_training
  PLAUDIT_TOKEN=secret plaudit serve checkpoints/best_model \\
      --host 0.0.0.0 --port 8000
  plaudit serve Qwen3-VL-4B-Instruct --lora logs/sft/checkpoints/best_model \\
      --task 'Pick up the red cube.'
  plaudit serve logs/20260801-12:00:00-pickcube_trend_sft \\
      --task 'robot manipulation progress judgment'
  plaudit serve classifier/checkpoints/best_model judge \\
      --name classifier --name judge
  curl -s localhost:8000/v1/score \\
      -H 'Content-Type: application/octet-stream' \\
      -H 'X-Plaudit-Shape: 1,128,128,3' --data-binary @frame.rgb

  from openai import OpenAI
  server = OpenAI(base_url='http://127.0.0.1:8000/v1', api_key='secret')
  server.models.list()")]
pub struct Command {
    /// Models: a run, a checkpoint folder or a file of `reward train` or `reward sft`, the Hugging Face folder of a Qwen3-VL, or
    /// one of one's own making (model.onnx, my_reward.py:score). Of several, clients name the one they mean
    #[arg(value_name = "MODEL", required = true)]
    models: Vec<PathBuf>,
    /// The address to listen on; anything but this machine wants a token
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    host: IpAddr,
    /// The port to listen on; 0 takes any free one
    #[arg(long, default_value_t = 8000)]
    port: u16,
    /// What clients call the model; once for each [default: the name of its file or folder]
    #[arg(long)]
    name: Vec<String>,
    /// The file that holds the token clients must show, instead of the variable PLAUDIT_TOKEN
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Serve without a token on an address that other machines can reach
    #[arg(long)]
    no_token: bool,
    /// Scores above this count as success [default: the model's own, or 0.5]
    #[arg(long, value_name = "P", allow_negative_numbers = true, value_parser = probability)]
    threshold: Option<f64>,
    #[command(flatten)]
    preparation: PreparationArgs,
    /// Vision-language model: low-rank adapters, as peft or RLinf saves them
    #[arg(long, value_name = "DIR")]
    lora: Option<PathBuf>,
    /// Vision-language model: the task in words, for windows of frames that come as bytes
    #[arg(long, value_name = "WORDS")]
    task: Option<String>,
    /// Vision-language model: images of a chat are the frames of N cameras, all of the first, then all of the next [default: as
    /// it was tuned; one that was not sees images]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16))]
    cameras: Option<u32>,
    /// Vision-language model: seconds of computing for one request, by an estimate; a longer one gets 413
    #[arg(long, value_name = "SECS", default_value_t = 60.0, value_parser = seconds)]
    max_time: f64,
    /// Vision-language model: compute with 16 bits
    #[arg(long)]
    bf16: bool,
    /// Vision-language model: keep weights in 8 bits, on a GPU: half the memory
    #[arg(long)]
    int8: bool,
    #[command(flatten)]
    device: DeviceArgs,
    /// Images per batch
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    max_batch: u32,
    /// Milliseconds the first request of a batch waits for others
    #[arg(long, value_name = "MS", default_value_t = 2)]
    max_wait: u64,
    /// Requests that may wait at once
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    max_queue: u32,
    /// Mebibytes of one request
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..4096))]
    max_body: u32,
    /// Megapixels of one image
    #[arg(long, value_name = "MP", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..1000))]
    max_image: u32,
    /// Mebibytes of memory for all requests: half as sent and decoded, half for the model's work
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(64..1_048_576))]
    max_memory: u32,
    /// Images of one chat request
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    max_images: u32,
}

/// What the user says about a model.
#[derive(Clone)]
struct ServeOptions {
    name: Option<String>,
    threshold: Option<f64>,
    preparation: PreparationArgs,
    verbosity: Verbosity,
    lora: Option<PathBuf>,
    task: Option<String>,
    cameras: Option<usize>,
    max_time: f64,
    bf16: bool,
    int8: bool,
    device: DeviceChoice,
}

/// A number of seconds above 0.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| *seconds > 0.0 && *seconds <= 86_400.0);
    seconds.ok_or_else(|| "give a number of seconds above 0, up to 86400".into())
}

impl ServeOptions {
    /// What clients call the model: as the user says, or the last part of its path.
    fn name_for(&self, path: &Path) -> String {
        let of_path = || path.file_name().map(|name| name.to_string_lossy().into_owned());
        self.name.clone().or_else(of_path).unwrap_or_else(|| "reward_model".into())
    }

    /// The first of some flags that the user gave and that mean nothing here.
    fn refuse(flags: &[(&str, bool)], what: &str) -> Result<(), Failure> {
        match flags.iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(Failure::usage(format!("{flag} means nothing for {what}"), None)),
            None => Ok(()),
        }
    }
}

/// What a model can do, for its entry in the list of models.
fn details(capabilities: &Capabilities, own: Value) -> Map<String, Value> {
    let mut details = own.as_object().cloned().unwrap_or_default();
    match &capabilities.input {
        ModelInput::Frames { image_keys, history_len } => {
            details.insert("views".into(), json!(image_keys));
            details.insert("history_len".into(), json!(history_len));
        }
        ModelInput::Conversations => {}
    }
    let device = match capabilities.device {
        Device::Cpu => "CPU".into(),
        Device::Cuda(number) => format!("GPU {number}"),
    };
    details.insert("device".into(), device.into());
    details
}

/// A model that is served, and what it is in a line.
type Opened = (Arc<dyn Model>, String);

impl Command {
    /// Does it.
    pub fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        let token = Token::find(self.token_file.as_deref())?;
        self.require_token(token.is_some())?;
        let options = ServeOptions {
            name: None,
            threshold: self.threshold,
            preparation: self.preparation.clone(),
            verbosity,
            lora: self.lora.clone(),
            task: self.task.clone(),
            cameras: self.cameras.map(|cameras| cameras as usize),
            max_time: self.max_time,
            bf16: self.bf16,
            int8: self.int8,
            device: self.device.choice(),
        };
        let opened = self.open_all(options)?;
        let (models, described): (Vec<Arc<dyn Model>>, Vec<String>) = opened.into_iter().unzip();
        let settings = ServerSettings {
            address: SocketAddr::new(self.host, self.port),
            token: token.map(Token::into_inner),
            limits: self.limits()?,
            batching: Batching {
                images: self.max_batch as usize,
                wait: Duration::from_millis(self.max_wait),
                work_bytes: self.half_memory(),
            },
        };
        let open = settings.token.is_none();
        let server = Server::bind(settings, models).map_err(|error| Failure::caused_by(&error))?;
        listen_for_interrupts();
        if !verbosity.quiet {
            described.iter().for_each(|model| console::eprintln(&format!("serving {model}")));
            if open && !self.host.is_loopback() {
                console::eprintln(
                    "warning: anybody who can reach this address can use the model (--no-token)",
                );
            }
        }
        // For people and for scripts, which wait for this line.
        console::print(&format!("listening on http://{}\n", server.address()))?;
        let Shutdown { answered, cut } =
            server.run(interrupted).map_err(|error| Failure::runtime(error, None))?;
        if cut > 0 {
            let all = answered + cut;
            let message =
                format!("stopped; {cut} of {all} requests under way were cut off without an answer");
            return Err(Failure::runtime(message, None));
        }
        if !verbosity.quiet {
            console::eprintln(&match answered {
                0 => "stopped; nothing was under way".into(),
                1 => "stopped; the request under way was answered".to_string(),
                all => format!("stopped; all {all} requests under way were answered"),
            });
        }
        Ok(())
    }

    /// The model, by what is in its folder or file.
    /// Opens every model by the name that it has.
    fn open_all(&self, options: ServeOptions) -> Result<Vec<Opened>, Failure> {
        let (models, names) = (self.models.len(), self.name.len());
        if !self.name.is_empty() && names != models {
            let message = format!("{names} names for {models} models");
            return Err(Failure::usage(message, "give --name once for each, in their order".to_string()));
        }
        if models > 1 {
            let flags = [
                ("--threshold", options.threshold.is_some()),
                ("--lora", options.lora.is_some()),
                ("--task", options.task.is_some()),
                ("--cameras", options.cameras.is_some()),
            ];
            let flags = [&flags[..], &options.preparation.given()].concat();
            if let Some((flag, _)) = flags.iter().find(|(_, given)| *given) {
                let help = "serve that model by itself".to_string();
                return Err(Failure::usage(format!("{flag} is for one model, and there are several"), help));
            }
        }
        let names = self.name.iter().cloned().map(Some).chain(std::iter::repeat(None));
        let open = |(path, name): (&PathBuf, Option<String>)| {
            self.open(path, &ServeOptions { name, ..options.clone() }, models > 1)
        };
        self.models.iter().zip(names).map(open).collect()
    }

    /// Opens a model. What is said about vision-language models does not concern a classifier `beside` one.
    fn open(&self, path: &Path, options: &ServeOptions, beside: bool) -> Result<Opened, Failure> {
        let found = ModelLocation::find(path, None);
        match found.map_err(|error| unopened(error.into()))? {
            ModelLocation::VisionLanguage(folder) => {
                let flags = [("--threshold", options.threshold.is_some())];
                ServeOptions::refuse(
                    &[&flags[..], &options.preparation.given()].concat(),
                    "a vision-language model",
                )?;
                let model = judge::open(path, folder, options)?;
                let described = model.described();
                Ok((model, described))
            }
            location @ (ModelLocation::Classifier(_) | ModelLocation::Custom(_)) => {
                let flags = [
                    ("--lora", options.lora.is_some()),
                    ("--task", options.task.is_some()),
                    ("--bf16", options.bf16 && !beside),
                    ("--int8", options.int8 && !beside),
                    ("--cameras", options.cameras.is_some()),
                ];
                ServeOptions::refuse(&flags, "an image classifier")?;
                let model = classifier::open(path, location, options)?;
                let described = model.described();
                Ok((model, described))
            }
            ModelLocation::Server(address) => {
                let help = "give the folder or the file of a model".to_string();
                Err(Failure::usage(format!("{address} is a server already"), help))
            }
        }
    }

    /// A model that everybody on the network may use must be asked for.
    fn require_token(&self, has_token: bool) -> Result<(), Failure> {
        if self.host.is_loopback() || has_token || self.no_token {
            return Ok(());
        }
        let message = format!("{} can be reached by others, and no token is asked of them", self.host);
        let help = "set PLAUDIT_TOKEN or --token-file, or say --no-token".to_string();
        Err(Failure::usage(message, help))
    }

    /// Half of the memory in bytes: for requests, and for the model's work.
    fn half_memory(&self) -> usize {
        (self.max_memory as usize) << 19
    }

    fn limits(&self) -> Result<Limits, Failure> {
        let body_bytes = (self.max_body as usize) << 20;
        if body_bytes.saturating_mul(4) > self.half_memory() {
            let message =
                format!("requests of {} MiB need more memory than {} MiB", self.max_body, self.max_memory);
            let help = format!("give --max-memory {} or more, or less --max-body", self.max_body as u64 * 8);
            return Err(Failure::usage(message, help));
        }
        Ok(Limits {
            body_bytes,
            image_pixels: self.max_image as usize * 1_000_000,
            images: self.max_images as usize,
            memory_bytes: self.half_memory(),
            work_bytes: self.half_memory(),
            queue: self.max_queue as usize,
            ..Limits::default()
        })
    }
}
