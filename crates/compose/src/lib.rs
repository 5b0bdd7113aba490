//! YAML composed the way Hydra 1.3 and OmegaConf 2.3 do it, with a memory of where each value came from.

mod apply;
mod compose;
pub mod de;
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
mod sources;
mod time;
mod tree;
mod yaml;

pub use compose::{Composition, Request, compose};
pub use de::from_node;
pub use error::{ComposeError, ErrorKind, Result, Texts};
pub use node::{COMMAND_LINE, Key, Map, Node, Origin, Value};
pub use resolvers::RESOLVERS;
pub use sources::{MemorySources, Sources};
pub use time::CivilTime;
pub use yaml::parse_yaml;
