//! YAML composed the way Hydra 1.3 and OmegaConf 2.3 do it, with the origin of each value.
//!
//! A training recipe is rarely one file. It names an environment, a model and a training backend by their
//! config groups, sets a few values of its own, computes others from them, and is changed once more on the
//! command line. Recipes written for Hydra should run as they are, so this crate follows Hydra (started with
//! `version_base="1.1"`) and OmegaConf value by value and type by type: [`compose`] gives the tree they give.
//!
//! ```
//! use plaudit_compose::{MemorySources, Request, compose};
//!
//! let sources = MemorySources::new()
//!     .file("config/train.yaml", "
//! defaults:
//!   - env: pick_cube
//! algorithm: {lr: 1e-4, batch: '${multiply:${env.num_envs},4}'}
//! ")
//!     .file("config/env/pick_cube.yaml", "num_envs: 64\nseed: 0\n");
//!
//! let request = Request::new("config", "train").with_overrides(["env.num_envs=8"]);
//! let composition = compose(&sources, &request)?;
//! let config = composition.resolve(&sources)?;
//!
//! let batch = config.get("algorithm.batch").unwrap();
//! assert_eq!(batch.as_int(), Some(32));
//! assert_eq!(batch.origin.to_string(), "config/train.yaml:4:30");
//! # Ok::<(), plaudit_compose::ComposeError>(())
//! ```
//!
//! # How a config is composed
//!
//! 1. **Read** ([`parse_yaml`]): YAML 1.1 scalars, anchors and merge keys become a tree of [`Node`]s, each
//!    with its [`Origin`].
//! 2. **Expand**: defaults lists are followed, choices and their overrides applied, packages worked out. What
//!    is left is a flat order of files, each with the place where it lands.
//! 3. **Merge**: mappings merge, lists and scalars replace, `???` never overwrites.
//! 4. **Override**: `key=value`, `+key=value`, `++key=value` and `~key` in Hydra's grammar. The tree is closed:
//!    a misspelt key is an error, with the nearest name as a hint.
//! 5. **Resolve** ([`Composition::resolve`]): interpolations are replaced, lazily and in scope.
//! 6. **Type** ([`from_node`]): serde reads structs out of the tree, and errors name the key and the line.
//!
//! # What it is not
//!
//! It opens no file, reads no environment variable and prints nothing: the caller passes [`Sources`]. It takes
//! sweeps apart ([`parse_sweep`]) and launches no jobs. Settings of Hydra itself are accepted and listed in
//! [`Composition::ignored`]; only `hydra.searchpath` has an effect. Structured configs and `pkg://` paths are
//! Python and stay there.
//!
//! # Where it differs from Hydra on purpose
//!
//! - A file that holds a lone word is an error, not a mapping with that word as its key.
//! - `?` may stand in flow collections and anchors may be defined again, as YAML 1.2 allows.
//! - A config that is used twice, once of it at the root, is read afresh each time. Hydra lets the second use
//!   see what was merged into the first.
//! - Unknown `hydra.*` settings are ignored rather than checked.
//! - Torch's dtypes become the text they print as, such as `torch.bfloat16`.
//! - Expansion is bounded: alias, interpolation and defaults bombs, loops and deep nesting are errors.

mod apply;
mod compose;
pub mod de;
mod decimal;
mod defaults;
pub mod error;
mod grammar;
mod hydra;
mod interpolation;
mod merge;
pub mod node;
mod overrides;
mod python;
mod repository;
mod resolvers;
mod scalar;
mod scan;
mod search_path;
mod ser;
mod sort;
mod sources;
mod time;
mod tree;
mod yaml;

pub use compose::{Composition, Request, compose};
pub use de::from_node;
pub use error::{ComposeError, ErrorKind, Result, Texts};
pub use node::{COMMAND_LINE, Key, Map, Node, Origin, Value};
pub use overrides::{SweepOverride, parse_sweep};
pub use resolvers::RESOLVERS;
pub use sources::{MemorySources, Sources};
pub use yaml::parse_yaml;
