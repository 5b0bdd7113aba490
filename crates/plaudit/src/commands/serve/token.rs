//! The token that clients of a server must show. It is never printed, and never an argument, which other users could see.

use std::path::Path;

use crate::failure::Failure;

/// The variable that holds it.
const VARIABLE: &str = "PLAUDIT_TOKEN";
/// A shorter one is a mistake.
const SHORTEST: usize = 4;

/// A secret.
pub(super) struct Token(String);

impl Token {
    /// From a file, or else from the variable, if there is one.
    pub(super) fn find(file: Option<&Path>) -> Result<Option<Self>, Failure> {
        let (text, place) = match file {
            Some(path) => {
                let text = std::fs::read_to_string(path).map_err(|error| {
                    Failure::usage(format!("cannot read {}: {error}", path.display()), None)
                })?;
                (text, path.display().to_string())
            }
            None => match std::env::var(VARIABLE) {
                Ok(text) => (text, VARIABLE.into()),
                Err(_) => return Ok(None),
            },
        };
        let token = text.trim();
        let is_plain = token.bytes().all(|byte| byte.is_ascii_graphic());
        if token.len() < SHORTEST || !is_plain {
            let message = format!("{place} holds no token");
            let help = format!("write at least {SHORTEST} letters, digits or signs without spaces into it");
            return Err(Failure::usage(message, help));
        }
        Ok(Some(Self(token.into())))
    }

    pub(super) fn into_inner(self) -> String {
        self.0
    }
}
