//! The studio: attacked by raw HTTP, and used in a browser.
//!
//! `PLAUDIT_PICTURES=docs/pictures` has the browser's tests write the pictures of docs/studio.md anew.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use plaudit_data::labelling::SpanJournal;

use crate::browser::browser;
use crate::browser::devtools::Tab;
use crate::runs::{command, fresh_classifier, refused, succeeds};

const SMALL: &str = "env.eval.init_params.sensor_configs={width: 32, height: 32}";

/// A studio that runs, and is killed with the test.
pub(crate) struct Running {
    process: Child,
    port: u16,
    token: String,
}

impl Running {
    pub(crate) fn start(here: &Path, words: &[&str]) -> Self {
        let mut process = command(here, &[&["studio", "--no-open"], words].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (_, rest) = line.trim().rsplit_once(':').unwrap_or_else(|| panic!("{line}"));
        let (port, token) = rest.split_once("/?token=").unwrap_or_else(|| panic!("{line}"));
        Self { process, port: port.parse().unwrap(), token: token.into() }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/?token={}", self.port, self.token)
    }

    pub(crate) fn address(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Sends some bytes, and gives what comes back: the status, and everything.
    fn raw(&self, bytes: &[u8]) -> (u16, String) {
        let mut stream = self.connect();
        // A server that refuses early may have closed already.
        let _ = stream.write_all(bytes);
        let mut reply = Vec::new();
        let _ = stream.read_to_end(&mut reply);
        let text = String::from_utf8_lossy(&reply).into_owned();
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        (status, text)
    }

    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[&str], body: &str) -> (u16, String) {
        let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        for header in headers {
            request += &format!("{header}\r\n");
        }
        if method == "POST" && !headers.iter().any(|header| header.starts_with("Content-Length")) {
            request += &format!("Content-Length: {}\r\n", body.len());
        }
        self.raw(format!("{request}\r\n{body}").as_bytes())
    }

    /// As somebody who has the cookie, from the studio's own page.
    pub(crate) fn own(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let host = format!("Host: 127.0.0.1:{}", self.port);
        let origin = format!("Origin: http://127.0.0.1:{}", self.port);
        let form = "Content-Type: application/x-www-form-urlencoded";
        self.ask(method, path, &[&host, &origin, form, &self.cookie()], body)
    }

    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        self.own("GET", path, "")
    }

    pub(crate) fn cookie(&self) -> String {
        format!("Cookie: plaudit_studio_{}={}", self.port, self.token)
    }

    /// Ends it as a crash of the machine would.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Episodes of a scripted policy, some of which succeed.
pub(crate) fn collected(here: &Path, folder: &str, episodes: &str) {
    let save = format!("env.eval.data_collection.save_dir={folder}");
    let words = ["-q", "collect", "pickcube_scripted", "--episodes", episodes, "actor.model.noise=0.1"];
    let rest = ["env.eval.ignore_terminations=true", "env.eval.seed=1", &save, SMALL];
    succeeds(here, &[&words[..], &rest].concat());
}

/// Waits until something is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn attacks_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let outside = directory.path();
    let here = outside.join("shown");
    std::fs::create_dir(&here).unwrap();
    collected(&here, "episodes", "2");
    std::fs::write(outside.join("secret.txt"), "the secret").unwrap();
    std::fs::write(here.join("plain.txt"), "the secret").unwrap();
    std::fs::write(here.join("film.mp4"), [b'a'; 100]).unwrap();
    let studio = Running::start(&here, &["."]);
    let host = format!("Host: 127.0.0.1:{}", studio.port);
    let origin = format!("Origin: http://127.0.0.1:{}", studio.port);
    let cookie = studio.cookie();
    let form = "Content-Type: application/x-www-form-urlencoded";

    // The token, in the address once and in a cookie then.
    let (status, text) = studio.ask("GET", "/data", &[&host], "");
    assert!(status == 401 && !text.contains("episodes"), "{text}");
    let (status, text) = studio.ask("GET", &format!("/?token={}", studio.token), &[&host], "");
    assert_eq!(status, 200, "{text}");
    let head = text.to_lowercase();
    assert!(
        head.contains("set-cookie: plaudit_studio_") && head.contains("httponly; samesite=strict"),
        "{text}"
    );
    for wrong in ["", "0", &"0".repeat(32), &studio.token[1..]] {
        assert_eq!(studio.ask("GET", &format!("/data?token={wrong}"), &[&host], "").0, 401, "{wrong}");
    }
    let (status, text) = studio.get("/data");
    assert_eq!(status, 200, "{text}");
    for header in [
        "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "cross-origin-resource-policy: same-origin",
    ] {
        assert!(text.contains(header), "{header}: {text}");
    }
    let scripts = text.matches("<script").count();
    assert!(
        scripts > 1 && scripts == text.matches("<script defer src=\"/static/").count(),
        "no script in the page"
    );

    // Names that point here, and other sites.
    for name in ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1"] {
        let named = format!("Host: {name}:{}", studio.port);
        let (status, text) = studio.ask("GET", "/data", &[&named, &cookie], "");
        assert!(status == 421 && !text.contains("episodes"), "{name}: {text}");
    }
    assert_eq!(studio.ask("GET", "/data", &[&cookie], "").0, 400, "no host");
    let label = "d=episodes&i=0&s=0&by=me&start=0&end=1&answer=success";
    for other in ["Origin: http://evil.example", "Origin: null", "Origin: http://127.0.0.1:1"] {
        assert_eq!(studio.ask("POST", "/label/add", &[&host, other, &cookie, form], label).0, 403, "{other}");
        assert_eq!(studio.ask("GET", "/data", &[&host, other, &cookie], "").0, 403, "{other}");
    }
    assert_eq!(studio.ask("POST", "/label/add", &[&host, &cookie, form], label).0, 403, "no origin");
    let site = "Sec-Fetch-Site: cross-site";
    assert_eq!(studio.ask("GET", "/data", &[&host, &cookie, site], "").0, 403, "{site}");
    assert!(!here.join("plaudit-labels").exists(), "nothing was written so far");

    // Files that are not the folder's.
    for path in [
        "/static/../../secret.txt",
        "/static/%2e%2e%2f%2e%2e%2fsecret.txt",
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/episode?d=..&i=0",
        "/episode?d=../shown/episodes&i=0",
        "/episode?d=/etc&i=0",
        "/episode/strip?d=%2e%2e%2f&i=0&camera=main_images&from=0&count=1",
        "/label/table?d=../..",
        "/file?path=../secret.txt",
        "/file?path=%2Fetc%2Fpasswd",
        "/file?path=plain.txt",
        "/label?d=episodes%00&i=0",
    ] {
        let (status, text) = studio.get(path);
        assert!(matches!(status, 400 | 403 | 404) && !text.contains("the secret"), "{path}: {text}");
    }

    let range = "Range: bytes=90-";
    let (status, text) = studio.ask("GET", "/file?path=film.mp4", &[&host, &cookie, range], "");
    assert!(status == 206 && text.contains("content-range: bytes 90-99/100"), "{text}");

    // Sizes, files, methods, nonsense.
    let long = "a=".to_string() + &"b".repeat(70_000);
    assert_eq!(studio.own("POST", "/label/add", &long).0, 413);
    let declared = ["Content-Length: 99999999999", &host, &origin, &cookie, form];
    assert_eq!(studio.ask("POST", "/label/add", &declared, "").0, 413, "before anything is read");
    let file = "Content-Type: multipart/form-data; boundary=x";
    assert_eq!(studio.ask("POST", "/label/add", &[&host, &origin, &cookie, file], "--x--").0, 415);
    assert_eq!(studio.ask("DELETE", "/data", &[&host, &origin, &cookie], "").0, 405);
    assert_eq!(studio.ask("PUT", "/data", &[&host, &origin, &cookie], "").0, 405);
    assert_eq!(studio.get(&format!("/data?q={}", "x".repeat(1 << 20))).0 / 100, 4, "a long head");
    for path in ["/episode?d=episodes&i=99", "/episode?d=episodes&i=-1", "/episode?d=episodes", "/nowhere"] {
        assert!(matches!(studio.get(path).0, 400 | 404), "{path}");
    }
    for path in [
        "/episode/strip?d=episodes&i=0&camera=main_images&from=9999999999&count=1",
        "/episode/curves?d=episodes&i=0&kind=reward&from=9&to=3",
        "/episode/clip?d=episodes&i=0&fps=1e9",
    ] {
        assert_eq!(studio.get(path).0 / 100, 4, "{path}");
    }
    studio.raw(b"GET / HTTP/9.9\r\n\r\n");
    studio.raw(&[0xff; 5000]);

    // Clients that send nothing, or a little now and then, are let go, and hold nobody up.
    let idle: Vec<TcpStream> = (0..20).map(|_| studio.connect()).collect();
    let mut slow = studio.connect();
    slow.write_all(b"GET /data HTTP/1.1\r\n").unwrap();
    let began = Instant::now();
    assert_eq!(studio.get("/data").0, 200);
    let mut end = Vec::new();
    let _ = slow.read_to_end(&mut end);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert!(!String::from_utf8_lossy(&end).contains(" 200 "));
    drop(idle);
    let mut stalling = studio.connect();
    let head = format!(
        "POST /label/add HTTP/1.1\r\n{host}\r\n{origin}\r\n{cookie}\r\n{form}\r\nContent-Length: 50\r\n\r\nd="
    );
    stalling.write_all(head.as_bytes()).unwrap();
    let mut reply = [0; 12];
    stalling.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"HTTP/1.1 408");

    // It is all right after that, and ends when it is asked to.
    assert_eq!(studio.own("POST", "/label/add", label).0, 200);
    assert!(here.join("plaudit-labels/episodes/labels.jsonl").exists());
    let mut studio = studio;
    let pid = studio.process.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    until("it ends", || studio.process.try_wait().unwrap().is_some());
    assert!(studio.process.wait().unwrap().success());
}

#[test]
fn a_studio_that_only_reads_writes_nothing_and_links_out_are_not_followed() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    collected(here, "episodes", "2");
    collected(here, "elsewhere", "2");
    let shown = here.join("shown");
    std::fs::create_dir(&shown).unwrap();
    std::fs::rename(here.join("episodes"), shown.join("episodes")).unwrap();
    #[cfg(unix)]
    {
        let link = std::os::unix::fs::symlink;
        link(here.join("elsewhere"), shown.join("linked")).unwrap();
        std::fs::create_dir(shown.join("mixed")).unwrap();
        for entry in std::fs::read_dir(here.join("elsewhere")).unwrap().map(|entry| entry.unwrap()) {
            link(entry.path(), shown.join("mixed").join(entry.file_name())).unwrap();
        }
    }
    let studio = Running::start(here, &["shown", "--read-only"]);
    until("the folder was looked at", || !studio.get("/data/list").1.contains("Looking for"));
    let (status, text) = studio.get("/data/list");
    assert!(status == 200 && text.contains("/episode?d=episodes&amp;i=1"), "{text}");
    assert!(!text.contains("d=linked") && !text.contains("d=mixed"), "{text}");
    assert!(matches!(studio.get("/episode?d=mixed&i=0").0, 403 | 404));
    let label = "d=episodes&i=0&s=0&by=me&start=0&end=1&answer=success";
    for (path, body) in
        [("/label/add", label), ("/label/undo", label), ("/label/export", "d=episodes&kind=csv")]
    {
        let (status, text) = studio.own("POST", path, body);
        assert!(status == 403 && text.contains("only reads"), "{path}: {text}");
    }
    assert!(!shown.join("plaudit-labels").exists());
    drop(studio);
    let said = refused(here, &["studio", "nowhere", "--no-open"], 2);
    assert!(said.contains("nowhere") && said.contains("give a folder"), "{said}");
}

#[test]
fn a_folder_of_a_thousand_episodes_is_painted_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    collected(here, "few", "2");
    std::fs::create_dir(here.join("many")).unwrap();
    let one = std::fs::read_dir(here.join("few")).unwrap().map(|entry| entry.unwrap().path());
    let one = one.filter(|path| path.extension().is_some_and(|end| end == "pkl")).min().unwrap();
    for number in 0..1000 {
        std::fs::hard_link(&one, here.join(format!("many/episode_{number}.pkl"))).unwrap();
    }
    let studio = Running::start(here, &["many"]);
    let began = Instant::now();
    let (status, text) = studio.get("/data");
    let first_paint = began.elapsed();
    assert!(status == 200 && text.contains("id=\"list\""), "{text}");
    assert!(first_paint < Duration::from_millis(300), "{first_paint:?}");
    until("every episode was read", || {
        studio.get("/data/list?min=1").1.contains("<b>1000</b> episodes here")
    });
    let (_, text) = studio.get("/data/list?page=16");
    assert!(text.contains("page 17 of 17") && text.matches("class=\"card episode\"").count() == 40, "{text}");
    assert_eq!(studio.get("/data/list?max=1").1.matches("class=\"card episode\"").count(), 0);
}

/// Everything that a page shows was loaded, and nothing stands beyond its edge.
pub(crate) fn fits(tab: &mut Tab, at: &str) {
    let wide = tab.eval("document.documentElement.scrollWidth - document.documentElement.clientWidth");
    assert_eq!(wide, 0, "{at} is wider than its screen");
    let broken =
        tab.eval("[...document.images].filter(image => image.complete && !image.naturalWidth).length");
    assert_eq!(broken, 0, "{at} has images that did not come");
    let unnamed = tab.eval(
        "[...document.querySelectorAll('button, a[href], input:not([type=hidden]), select')].filter(one => !(one.textContent.trim() || one.getAttribute('aria-label') \
         || one.title || one.labels?.length || one.querySelector('[alt]'))).map(one => one.outerHTML).join()",
    );
    assert_eq!(unnamed, "", "{at}: without a name");
    let errors = tab.errors();
    assert!(errors.is_empty(), "{at}: {errors:?}");
}

/// Writes a picture for the documents, where it is asked for.
pub(crate) fn picture(tab: &mut Tab, name: &str) {
    if let Some(folder) = std::env::var_os("PLAUDIT_PICTURES") {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        tab.picture(&root.join(folder).join(format!("studio_{name}.png")));
    }
}

/// Opens every page at both widths, light and dark.
fn look_at_pages(tab: &mut Tab, studio: &Running, pages: &[(&str, &str)]) {
    for (width, height) in [(1400, 900), (400, 860)] {
        for scheme in ["light", "dark"] {
            tab.look(width, height, scheme);
            for (path, ready) in pages {
                tab.go(&studio.address(path));
                tab.wait_for(ready);
                fits(tab, &format!("{path} at {width}, {scheme}"));
                let page = path.trim_start_matches('/').split(['?', '/']).next().unwrap();
                if (width, scheme) == (1400, "light") {
                    picture(tab, page);
                } else if (width, scheme, page) == (400, "dark", "episode") {
                    picture(tab, "phone");
                }
            }
        }
    }
}

const SHOWN: &str = "document.querySelector('.player')?.dataset.shown !== undefined";

#[test]
fn people_look_label_and_train_and_a_kill_loses_no_label() {
    let Some(browser) = browser() else { return };
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    collected(here, "episodes", "8");
    fresh_classifier(here.join("reward/checkpoints/best_model"), &["main_images"], Some(0.5), 1);
    let named = fresh_classifier(here.join("named.safetensors.d"), &["main_images"], Some(0.5), 2);
    let studio = Running::start(here, &[".", "--model", named.to_str().unwrap()]);
    let mut tab = Tab::open(&browser);
    tab.look(1400, 900, "light");
    tab.go(&studio.url());
    tab.wait_for("location.pathname === '/data' && document.querySelectorAll('.card img').length === 8");
    assert_eq!(
        tab.eval("location.search + document.cookie"),
        "",
        "the token is in no address, and no script can read it"
    );
    look_at_pages(
        &mut tab,
        &studio,
        &[
            ("/data", "document.querySelectorAll('.card img').length === 8"),
            ("/data?view=table", "document.querySelectorAll('table.list tbody tr').length === 8"),
            ("/episode?d=episodes&i=1#frame=30", SHOWN),
            ("/label?d=episodes&i=1", SHOWN),
            ("/label", "document.querySelector('table.list') !== null"),
        ],
    );
    watched(&mut tab, &studio);
    let labels = here.join("plaudit-labels/episodes/labels.jsonl");
    labelled(&mut tab, &studio, &labels);
    studio.kill();
    let standing = SpanJournal::read(labels.parent().unwrap(), "episodes").unwrap();
    let frames: Vec<[usize; 2]> = standing.iter().map(|label| label.span.unwrap()).collect();
    assert_eq!(frames, (0..30).map(|at| [at, at + 1]).collect::<Vec<_>>());

    // It goes on where it was, and the labels train.
    let studio = Running::start(here, &["."]);
    tab.go(&studio.url());
    tab.wait_for("location.pathname === '/data'");
    drop(tab.errors()); // of a page whose studio was gone
    tab.go(&studio.address("/label?d=episodes&i=0"));
    tab.wait_for("document.body.dataset.labels === '30'");
    tab.key("u");
    tab.wait_for("document.body.dataset.labels === '29'");
    disputed(&mut tab);
    exported(&mut tab);
    let errors = tab.errors();
    assert!(errors.is_empty(), "{errors:?}");
    drop(studio);
    let table = here.join("plaudit-labels/episodes/labels.csv");
    let labels = format!("data.labels={}", table.display());
    let small = ["actor.model.arch=resnet10", "actor.model.image_size=[3,32,32]", "runner.max_steps=2"];
    let words = ["-q", "reward", "train", "--data", "episodes", &labels, "runner.logger.log_path=run"];
    succeeds(here, &[&words[..], &small].concat());
    assert!(here.join("run/checkpoints/best_model/model.safetensors").exists());
    let said = succeeds(here, &["dataset", "inspect", "plaudit-labels/episodes/train_data"]);
    assert!(said.contains("labels"), "{said}");
}

/// An episode is scrubbed, stepped and played; models say what they think of it, and a click on a curve goes there.
fn watched(tab: &mut Tab, studio: &Running) {
    tab.look(1400, 1100, "light");
    tab.go(&studio.address("/episode?d=episodes&i=2"));
    tab.wait_for(SHOWN);
    let shows = |tab: &mut Tab, at: u32| {
        tab.wait_for(&format!("document.querySelector('.player').dataset.shown === '{at}'"))
    };
    for (key, at) in [("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("Home", 0)] {
        tab.key(key);
        shows(tab, at);
    }
    let drawn = "(() => { const c = document.querySelector('.player canvas'); \
                 return [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data].reduce((a, b, n) => (a * 31 + b * (n % 7)) % 1000003, 0); })()";
    let first = tab.eval(drawn);
    tab.eval("(slider => { slider.value = 20; slider.dispatchEvent(new Event('input', { bubbles: true })); })(document.querySelector('.controls input'))");
    shows(tab, 20);
    assert_ne!(tab.eval(drawn), first, "another frame is another image");
    tab.key(" ");
    tab.wait_for("player.at > 24");
    tab.key(" ");
    assert_eq!(tab.eval("player.playing"), false);
    tab.eval("document.querySelectorAll('.models input').forEach(box => box.click())");
    tab.wait_for("document.querySelectorAll('#reward-curves .legend li').length === 2");
    assert!(
        tab.eval("document.querySelector('#reward-curves .notes').innerText")
            .as_str()
            .unwrap()
            .contains("threshold 0.500")
    );
    picture(tab, "curves");
    let place = tab.eval("(r => [r.left + 0.5 * r.width, r.top + 0.5 * r.height])(document.querySelector('#reward-curves .field').getBoundingClientRect())");
    let place = (place[0].as_f64().unwrap(), place[1].as_f64().unwrap());
    tab.drag(place, place);
    tab.wait_for("Math.abs(player.at - (player.length - 1) / 2) <= 1");
    tab.eval("document.querySelectorAll('#panels details').forEach(fold => { fold.open = true; })");
    tab.wait_for("[...document.querySelectorAll('#panels details .charts')].every(charts => charts.querySelector('svg'))");
    let clip = tab.eval("fetch('/episode/clip?d=episodes&i=2&s=0&from=0&to=12&m=reward').then(r => r.arrayBuffer()).then(b => [b.byteLength, String.fromCharCode(...new Uint8Array(b).slice(4, 8))])");
    assert!(clip[0].as_u64().unwrap() > 1000 && clip[1] == "ftyp", "{clip}");
    fits(tab, "a watched episode");
}

/// Thirty frames by keys; an interval by holding and one by dragging are taken back again.
fn labelled(tab: &mut Tab, studio: &Running, journal: &Path) {
    tab.go(&studio.address("/label?d=episodes&i=0"));
    tab.wait_for(SHOWN);
    tab.wait_for("document.body.dataset.labels === '0'");
    for number in 0..30 {
        tab.key(if number < 18 { "a" } else { "c" });
    }
    tab.wait_for("document.body.dataset.labels === '30'");
    let words = "document.getElementById('timeline').getAttribute('aria-label')";
    assert!(
        tab.eval(words).as_str().unwrap().contains("failure 0 to 17, success 18 to 29;"),
        "{}",
        tab.eval(words)
    );
    picture(tab, "labelled");

    tab.eval("document.getElementById('lag').value = '0.2'");
    tab.eval("player.show(32)");
    tab.hold("c", Duration::from_millis(1200));
    tab.wait_for("document.body.dataset.labels === '31'");
    let text = std::fs::read_to_string(journal).unwrap();
    let held: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert!(held["label"]["span"][1].as_u64().unwrap() > 34 && held["label"]["lag_frames"] == 2, "{held}");
    assert!(tab.eval(words).as_str().unwrap().contains("success 18 to 3"), "moved back: {}", tab.eval(words));
    tab.key("u");
    tab.wait_for("document.body.dataset.labels === '30'");

    let strip = tab.eval("(r => [r.left, r.top + r.height / 2, r.width])(document.getElementById('timeline').getBoundingClientRect())");
    let [left, top, width] = [0, 1, 2].map(|at| strip[at].as_f64().unwrap());
    tab.drag((left + 0.71 * width, top), (left + 0.89 * width, top));
    tab.wait_for("document.querySelectorAll('#timeline .drag').length === 1");
    tab.key("b");
    tab.wait_for("document.body.dataset.labels === '31'");
    assert!(tab.eval(words).as_str().unwrap().contains("skip 3"), "{}", tab.eval(words));
    tab.key("u");
    tab.wait_for("document.body.dataset.labels === '30'");
    proposed(tab);
}

/// Frames that two models are unsure of.
fn proposed(tab: &mut Tab) {
    tab.eval("document.querySelectorAll('#rank-models input').forEach(box => { box.checked = true; })");
    tab.eval("document.getElementById('rank').click()");
    tab.wait_for(
        "document.getElementById('ranking').hidden && document.querySelectorAll('#queue a').length > 8",
    );
    picture(tab, "next");
    tab.key("q");
    tab.wait_for("new URLSearchParams(location.search).has('queue') && location.hash.startsWith('#frame=')");
    tab.wait_for(SHOWN);
}

/// A second person says something else about some frames.
fn disputed(tab: &mut Tab) {
    tab.eval("(name => { name.value = 'ben'; name.dispatchEvent(new Event('change')); })(document.getElementById('by'))");
    tab.wait_for("document.body.dataset.labels === '0'");
    tab.eval("player.show(10)");
    for number in 0..10 {
        tab.key(if number < 5 { "a" } else { "c" });
    }
    tab.wait_for("document.body.dataset.labels === '10'");
    // Of frames 10 to 19 the first said failure of eight and success of two, the second success of five: they agree on seven.
    // 0.7, by guessing 0.8 * 0.5 + 0.2 * 0.5 = 0.5: kappa 0.4.
    let said = tab.eval("document.getElementById('agreement').innerText");
    assert!(said.as_str().unwrap().contains("7 of 10 frames alike, Cohen’s kappa 0.40"), "{said}");
}

fn exported(tab: &mut Tab) {
    for (kind, done) in [("csv", "labels.csv"), ("train", "images to train on"), ("lerobot", "8 episodes")] {
        tab.eval(&format!("document.querySelector('[data-export={kind}]').click()"));
        tab.wait_for(&format!("document.getElementById('exported').innerText.includes('{done}')"));
    }
}

#[test]
fn the_help_shows_commands_that_parse() {
    let here: PathBuf = std::env::temp_dir();
    let text = succeeds(&here, &["studio", "--help"]);
    for flag in ["--port", "--bind", "--read-only", "--model", "--open", "--no-open"] {
        assert!(text.contains(flag), "{flag} is not in: {text}");
    }
}
