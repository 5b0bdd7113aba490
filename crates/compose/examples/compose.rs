//! Composes a config from disk and prints it as JSON: `compose <config-dir> <config-name> [override...]`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example talks to its user")]

use std::process::ExitCode;

use plaudit_compose::{Request, Sources, compose};

/// The real world.
struct Disk;

impl Sources for Disk {
    fn read(&self, path: &str) -> Result<String, String> {
        std::fs::read_to_string(path).map_err(|error| error.to_string())
    }

    fn is_file(&self, path: &str) -> bool {
        std::path::Path::new(path).is_file()
    }

    fn is_dir(&self, path: &str) -> bool {
        std::path::Path::new(path).is_dir()
    }

    fn list(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    fn env(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn now(&self) -> jiff::civil::DateTime {
        jiff::Zoned::now().datetime()
    }

    fn cwd(&self) -> String {
        std::env::current_dir().map(|path| path.display().to_string()).unwrap_or_default()
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (Some(directory), Some(name)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: compose <config-dir> <config-name> [override...]");
        return ExitCode::FAILURE;
    };
    let request = Request::new(directory, name).with_overrides(arguments);
    let resolved = compose(&Disk, &request).and_then(|composition| composition.resolve(&Disk));
    match resolved.map(|node| serde_json::to_string_pretty(&node)) {
        Ok(Ok(json)) => println!("{json}"),
        Ok(Err(error)) => eprintln!("{error}"),
        Err(error) => {
            eprintln!("{error}");
            if let Some(line) = error.line_text() {
                eprintln!("  {line}");
            }
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
