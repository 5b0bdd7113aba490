//! Films and images of the folder, as they lie there: players ask for parts of them.

use std::path::Path;
use std::sync::Arc;

use super::Page;
use crate::app::App;
use crate::http::{Refusal, Reply, Request};

/// What is served, by the endings of names. Anything else could be a secret.
const KINDS: &[(&str, &str)] =
    &[("mp4", "video/mp4"), ("png", "image/png"), ("jpg", "image/jpeg"), ("jpeg", "image/jpeg")];

pub(super) const PAGE: Page = Page { path: "file", title: "", harmless_posts: &[], answer };

fn answer(app: &Arc<App>, request: &Request) -> Result<Reply, Refusal> {
    let name = request.query.need("path")?;
    let not_found = || Refusal::not_found("there is no such film or image in this folder");
    let path = app.folder.find(name).filter(|path| path.is_file()).ok_or_else(not_found)?;
    let kind = media_type(&path).ok_or_else(not_found)?;
    Reply::file(kind, &path, request.range)
}

fn media_type(path: &Path) -> Option<&'static str> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    KINDS.iter().find(|(ending, _)| *ending == extension).map(|(_, kind)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_films_and_images_are_served() {
        for (name, kind) in
            [("a.mp4", Some("video/mp4")), ("a.PNG", Some("image/png")), ("a.csv", None), ("mp4", None)]
        {
            assert_eq!(media_type(Path::new(name)), kind, "{name}");
        }
    }
}
