//! Lists the files of `configs/`, so that every recipe is inside the binary without a list to keep by hand.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let configs = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../../configs");
    println!("cargo::rerun-if-changed={}", configs.display());
    let mut files = Vec::new();
    collect(&configs, &mut files)?;
    files.sort();
    let mut code = String::from("&[\n");
    for file in &files {
        let name = file.strip_prefix(&configs).unwrap_or(file).to_string_lossy().replace('\\', "/");
        code.push_str(&format!("    ({name:?}, include_str!({:?})),\n", file.display().to_string()));
    }
    code.push(']');
    let out = PathBuf::from(env::var("OUT_DIR").unwrap_or_default()).join("recipes.rs");
    fs::write(out, code)
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            println!("cargo::rerun-if-changed={}", path.display());
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
    Ok(())
}
