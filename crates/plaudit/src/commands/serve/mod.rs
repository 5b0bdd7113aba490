//! `plaudit serve`: a reward model behind HTTP.

mod classifier;
mod judge;
mod token;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use plaudit_reward::trend::JudgeFolder;
use plaudit_serve::{Batching, Limits, Model, Server, ServerSettings};

use self::token::Token;
use crate::cli::Volume;
use crate::failure::Failure;
use crate::run::{interrupted, listen_for_interrupts};
use crate::say;

/// Serve a reward model over HTTP
///
/// Speaks the OpenAI chat protocol with pictures (/v1/chat/completions, /v1/models) and a plain one for frames as bytes
/// (/v1/score). Requests that arrive together are answered together; when too many wait, further ones get 503 and a
/// Retry-After. /healthz and /metrics are for whoever looks after it. It listens on this machine alone unless --host says
/// otherwise, and then wants a token. Ctrl-C finishes what is under way. See docs/serve.md.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit serve logs/20260801-12:00:00-reward_training
  PLAUDIT_TOKEN=secret plaudit serve checkpoints/best_model --host 0.0.0.0 --port 8000
  plaudit serve Qwen3-VL-4B-Instruct --lora logs/sft/checkpoints/best_model --task 'Pick up the red cube.'
  plaudit serve logs/20260801-12:00:00-pickcube_trend_sft --task 'robot manipulation progress judgment'
  curl -s localhost:8000/v1/score -H 'Content-Type: application/octet-stream' \\
      -H 'X-Plaudit-Shape: 1,128,128,3' --data-binary @frame.rgb

  from openai import OpenAI
  OpenAI(base_url='http://127.0.0.1:8000/v1', api_key='secret').models.list()")]
pub struct Command {
    /// A model: a run, a checkpoint folder or a file of `reward train` or `reward sft`, or the Hugging Face folder of a
    /// Qwen3-VL
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// The address to listen on; anything but this machine wants a token
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    host: IpAddr,
    /// The port to listen on; 0 takes any free one
    #[arg(long, default_value_t = 8000)]
    port: u16,
    /// What clients call the model [default: the name of its file or folder]
    #[arg(long)]
    name: Option<String>,
    /// The file that holds the token clients must show, instead of the variable PLAUDIT_TOKEN
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Let anybody in who can reach an address that is not this machine's own
    #[arg(long)]
    no_token: bool,
    /// Scores above this count as success [default: the model's own, or 0.5]
    #[arg(long, value_name = "P")]
    threshold: Option<f32>,
    /// Height and width that pictures are brought to, where the model does not say
    #[arg(long, value_names = ["H", "W"], num_args = 2)]
    image_size: Option<Vec<usize>>,
    /// Vision-language model: low-rank adapters, as peft or RLinf saves them
    #[arg(long, value_name = "DIR")]
    lora: Option<PathBuf>,
    /// Vision-language model: the task in words, for windows of frames that come as bytes
    #[arg(long, value_name = "WORDS")]
    task: Option<String>,
    /// Vision-language model: compute with 16 bits
    #[arg(long)]
    bf16: bool,
    /// Vision-language model: score on the NVIDIA GPU of this number, with 16 bits [default: the processor]
    #[arg(long, value_name = "N")]
    gpu: Option<usize>,
    /// Pictures the model is shown at once
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
    /// Megapixels of one picture
    #[arg(long, value_name = "MP", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..1000))]
    max_image: u32,
    /// Pictures of one chat request
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    max_images: u32,
}

/// What the user says about a model.
struct Wanted {
    name: Option<String>,
    threshold: Option<f32>,
    image_size: Option<[usize; 2]>,
    lora: Option<PathBuf>,
    task: Option<String>,
    bf16: bool,
    gpu: Option<usize>,
}

impl Wanted {
    /// What clients call the model: as the user says, or the last part of its path.
    fn name_for(&self, path: &Path) -> String {
        let of_path = || path.file_name().map(|name| name.to_string_lossy().into_owned());
        self.name.clone().or_else(of_path).unwrap_or_else(|| "reward_model".into())
    }

    /// The first of some flags that the user gave and that mean nothing here.
    fn refuse(flags: &[(&str, bool)], what: &str) -> Result<(), Failure> {
        match flags.iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(Failure::use_of(format!("{flag} means nothing for {what}"), None)),
            None => Ok(()),
        }
    }
}

/// A model that is served, and what it is in a line.
type Opened = (Arc<dyn Model>, String);

impl Command {
    /// Does it.
    pub fn run(self, volume: Volume) -> Result<(), Failure> {
        let token = Token::find(self.token_file.as_deref())?;
        self.refuse_open_doors(token.is_some())?;
        let wanted = Wanted {
            name: self.name.clone(),
            threshold: self.threshold,
            image_size: self.image_size.as_deref().and_then(|size| size.try_into().ok()),
            lora: self.lora.clone(),
            task: self.task.clone(),
            bf16: self.bf16,
            gpu: self.gpu,
        };
        let (model, described) = self.open(&wanted)?;
        let settings = ServerSettings {
            address: SocketAddr::new(self.host, self.port),
            token: token.map(Token::into_inner),
            limits: self.limits(),
            batching: Batching {
                pictures: self.max_batch as usize,
                wait: Duration::from_millis(self.max_wait),
            },
        };
        let open = settings.token.is_none();
        let server = Server::bind(settings, model).map_err(|error| Failure::work(error, None))?;
        listen_for_interrupts();
        if !volume.quiet {
            say::aside(&format!("serving {described}"));
            if open && !self.host.is_loopback() {
                say::aside("warning: anybody who can reach this address may ask (--no-token)");
            }
        }
        // For people and for scripts, which wait for this line.
        say::out(&format!("listening on http://{}\n", server.address()))?;
        server.run(interrupted).map_err(|error| Failure::work(error, None))?;
        if !volume.quiet {
            say::aside("stopped; what was under way is answered");
        }
        Ok(())
    }

    /// The model, by what is in its folder or file.
    fn open(&self, wanted: &Wanted) -> Result<Opened, Failure> {
        let judge = JudgeFolder::find(&self.model).map_err(|error| {
            Failure::use_of(error, "give that model's folder, and the adapters with --lora".to_string())
        })?;
        if let Some(judge) = judge {
            let flags =
                [("--threshold", wanted.threshold.is_some()), ("--image-size", wanted.image_size.is_some())];
            Wanted::refuse(&flags, "a vision-language model")?;
            let model = judge::open(&self.model, judge, wanted)?;
            let described = model.described();
            return Ok((model, described));
        }
        let flags = [
            ("--lora", wanted.lora.is_some()),
            ("--task", wanted.task.is_some()),
            ("--bf16", wanted.bf16),
            ("--gpu", wanted.gpu.is_some()),
        ];
        Wanted::refuse(&flags, "an image classifier")?;
        let model = classifier::open(&self.model, wanted)?;
        let described = model.described();
        Ok((model, described))
    }

    /// A model that everybody on the network may use is a choice, not an accident.
    fn refuse_open_doors(&self, has_token: bool) -> Result<(), Failure> {
        if self.host.is_loopback() || has_token || self.no_token {
            return Ok(());
        }
        let message = format!("{} can be reached by others, and no token is asked of them", self.host);
        let help = "set PLAUDIT_TOKEN or --token-file, or say --no-token".to_string();
        Err(Failure::use_of(message, help))
    }

    fn limits(&self) -> Limits {
        let (body_bytes, defaults) = ((self.max_body as usize) << 20, Limits::default());
        Limits {
            body_bytes,
            picture_pixels: self.max_image as usize * 1_000_000,
            pictures: self.max_images as usize,
            memory_bytes: defaults.memory_bytes.max(body_bytes * 4),
            queue: self.max_queue as usize,
            ..defaults
        }
    }
}
