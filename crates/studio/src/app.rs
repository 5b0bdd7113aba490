//! What pages work with: the folder, what is in it, and who is told what happens.

use std::sync::Arc;

use crate::backend::Backend;
use crate::compare::Comparisons;
use crate::error::StudioError;
use crate::events::Events;
use crate::folder::Folder;
use crate::images::Images;
use crate::labels::{LABELS_FOLDER, Labels};
use crate::library::Library;
use crate::models::Accepted;
use crate::robot::Robots;
use crate::runs::Runs;
use crate::scoring::Scoring;
use crate::server::StudioSettings;

/// What pages work with.
pub(crate) struct App {
    pub(crate) folder: Folder,
    /// Whether nothing may be written.
    pub(crate) read_only: bool,
    /// Whether other machines can reach it.
    pub(crate) is_exposed: bool,
    pub(crate) events: Arc<Events>,
    pub(crate) library: Arc<Library>,
    pub(crate) scoring: Arc<Scoring>,
    pub(crate) images: Images,
    pub(crate) labels: Labels,
    pub(crate) compare: Comparisons,
    pub(crate) accepted: Accepted,
    pub(crate) runs: Arc<Runs>,
    pub(crate) robots: Robots,
    pub(crate) backend: Option<Arc<dyn Backend>>,
}

impl App {
    /// Begins to look for what is in the folder.
    pub(crate) fn start(
        folder: Folder,
        settings: StudioSettings,
        backend: Option<Arc<dyn Backend>>,
    ) -> Result<Arc<Self>, StudioError> {
        let events = Arc::new(Events::default());
        let library = Arc::new(Library::new(folder.clone()));
        let StudioSettings { models, open_options, read_only, address, .. } = settings;
        let scoring = Arc::new(Scoring::new(folder.clone(), library.clone(), &models, open_options));
        let compare = Comparisons::new(&folder.root().join(LABELS_FOLDER));
        let labels = Labels::new(folder.clone(), read_only);
        let accepted = Accepted::in_folder(&folder.root().join(LABELS_FOLDER));
        let runs = Arc::new(Runs::new(folder.clone()));
        let robots = Robots::new(folder.clone());
        runs.start(&events)?;
        library.start(&events)?;
        scoring.start(&events)?;
        let app = Arc::new(Self {
            folder,
            read_only,
            is_exposed: !address.ip().is_loopback(),
            events,
            library,
            scoring,
            images: Images::default(),
            labels,
            compare,
            accepted,
            runs,
            robots,
            backend,
        });
        // The menu has the page where there is a robot; nobody waits for a large folder to be looked through.
        let looking = app.clone();
        std::thread::Builder::new()
            .name("robots".into())
            .spawn(move || looking.robots.configs(looking.backend.as_deref()))?;
        Ok(app)
    }

    /// Lets threads and streams end.
    pub(crate) fn stop(&self) {
        self.library.stop();
        self.scoring.stop();
        self.runs.stop();
        self.events.close();
    }

    /// The folder in a word.
    pub(crate) fn folder_name(&self) -> String {
        let name = self.folder.root().file_name();
        name.map_or_else(|| "/".into(), |name| name.to_string_lossy().into_owned())
    }
}
