//! The report as a page for people.

use std::fmt::{self, Write};

use super::finding::{Finding, Severity};
use super::report::{LabelCount, Report, VectorWidth};

/// Broken files and examples that are shown.
const SHOWN: usize = 8;
const BAR: usize = 24;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [one, many] = self.format.noun();
        let noun = if self.episodes == 1 { one } else { many };
        // Episodes of LeRobot share files, and are counted themselves.
        let (file, shared) = if self.format.shares_files() { (many, true) } else { ("files", false) };
        let files = if (1..self.files).contains(&self.inspected_files) {
            format!(
                ", in {} of {} {file}, evenly spread",
                thousands(self.inspected_files),
                thousands(self.files)
            )
        } else if shared {
            String::new()
        } else {
            format!(", in {}", files(self.files))
        };
        writeln!(f, "{}: {}", self.path, self.format.describe())?;
        writeln!(f, "{} {noun}, {} frames{files}", thousands(self.episodes), thousands(self.frames))?;
        if self.episodes == 0 {
            return self.write_broken(f);
        }
        writeln!(f)?;
        for (name, lines) in self.facts() {
            for (at, line) in lines.iter().enumerate() {
                writeln!(f, "  {:<11}{line}", if at == 0 { name } else { "" })?;
            }
        }
        self.write_broken(f)?;
        self.write_findings(f)
    }
}

impl Report {
    /// The lines of the table, those without content left out.
    fn facts(&self) -> Vec<(&'static str, Vec<String>)> {
        let lengths = &self.lengths;
        let steps = format!("{} to {}, median {}", lengths.min, lengths.max, lengths.median);
        let steps = if !self.format.has_lengths() { Vec::new() } else { vec![steps] };
        let facts = vec![
            ("length", steps),
            ("success", self.success_line().into_iter().collect()),
            ("labels", bars(&self.labels)),
            ("cameras", self.camera_lines()),
            ("state", widths(&self.state_widths)),
            ("action", widths(&self.action_widths)),
            ("reward", self.reward_line().into_iter().collect()),
            ("by person", self.intervention_line().into_iter().collect()),
            ("duplicates", vec![self.duplicate_line()]),
            ("leakage", self.leakage_line().into_iter().collect()),
        ];
        facts.into_iter().filter(|(_, lines)| !lines.is_empty()).collect()
    }

    fn success_line(&self) -> Option<String> {
        let success = self.success;
        if success.labelled == 0 {
            return self.format.is_of_episodes().then(|| "unknown: nothing says which succeeded".into());
        }
        let unknown = self.episodes - success.labelled;
        let rest = if unknown > 0 { format!("; unknown for {unknown}") } else { String::new() };
        let share = percent(success.once, success.labelled);
        Some(format!(
            "{} of {} ({share}), {} at the end{rest}",
            success.once, success.labelled, success.at_end
        ))
    }

    fn camera_lines(&self) -> Vec<String> {
        let wide = self.cameras.iter().map(|camera| camera.name.chars().count()).max().unwrap_or(0);
        let sizes = |camera: &super::Camera| {
            let size = |size: &super::ImageSize| {
                let [height, width, channels] = size.shape;
                format!("{width}x{height}x{channels} ({})", thousands(size.frames))
            };
            camera.sizes.iter().map(size).collect::<Vec<_>>().join(", ")
        };
        let video = |camera: &super::Camera| match &camera.video {
            Some(video) => format!(", video: {video}"),
            None => String::new(),
        };
        let line =
            |camera: &super::Camera| format!("{:wide$}  {}{}", camera.name, sizes(camera), video(camera));
        self.cameras.iter().map(line).collect()
    }

    fn intervention_line(&self) -> Option<String> {
        let (steps, episodes) = (self.interventions.steps, self.interventions.episodes);
        let steps_in = format!("{} of {} steps", thousands(steps), thousands(self.lengths.total));
        (steps > 0).then(|| format!("{steps_in}, in {episodes} of {} episodes", self.episodes))
    }

    fn reward_line(&self) -> Option<String> {
        let reward = self.reward?;
        let zero = 100.0 * reward.zero_share;
        let odd = match (reward.nan, reward.infinite) {
            (0, 0) => String::new(),
            (nan, infinite) => format!("; {nan} are NaN and {infinite} infinite, and left out of this"),
        };
        Some(format!("{:.3} to {:.3}, mean {:.3}, {zero:.0}% zero{odd}", reward.min, reward.max, reward.mean))
    }

    fn duplicate_line(&self) -> String {
        let found = &self.duplicates;
        if self.inspected_files == 0 {
            return "not checked".into();
        }
        if *found == super::Duplicates::default() {
            return "none".into();
        }
        let noun = |count: usize| self.format.noun()[usize::from(count != 1)];
        let counts = [
            (found.episodes, format!("{} (exact)", noun(found.episodes))),
            (found.near_episodes, format!("{} (near)", noun(found.near_episodes))),
            (found.frames, if found.frames == 1 { "image".into() } else { "images".into() }),
        ];
        let some = counts.iter().filter(|(count, _)| *count > 0);
        let said: Vec<String> = some.map(|(count, what)| format!("{} {what}", thousands(*count))).collect();
        said.join(", ")
    }

    fn leakage_line(&self) -> Option<String> {
        let found = self.leakage.as_ref()?;
        Some(format!(
            "of {} validation images, {} are exact duplicates of training images and {} near duplicates",
            thousands(found.val_images),
            thousands(found.exact_duplicates),
            thousands(found.near_duplicates),
        ))
    }

    fn write_broken(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.broken.is_empty() {
            return Ok(());
        }
        writeln!(f, "\n  {} cannot be read:", files(self.broken.len()))?;
        for broken in self.broken.iter().take(SHOWN) {
            writeln!(f, "    {}: {}", broken.file, broken.problem)?;
        }
        rest(f, self.broken.len(), SHOWN)
    }

    fn write_findings(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.findings.is_empty() {
            return writeln!(f, "\n  Nothing suspicious.");
        }
        let [one, many] = self.format.noun();
        for finding in &self.findings {
            writeln!(f)?;
            let mark = match finding.severity {
                Severity::Wrong => "✗",
                Severity::Doubtful => "!",
                Severity::Note => "·",
            };
            let about = match finding.count {
                0 => String::new(),
                1 => format!(" (1 {})", unit(finding, one)),
                count => format!(" ({} {})", thousands(count), unit(finding, many)),
            };
            writeln!(f, "  {mark} {}{about}", finding.what)?;
            for example in &finding.examples {
                writeln!(f, "      {example}")?;
            }
            rest(f, finding.count, finding.examples.len())?;
            writeln!(f, "    → {}", finding.advice)?;
        }
        Ok(())
    }
}

/// What a finding counts.
fn unit<'a>(finding: &Finding, noun: &'a str) -> &'a str {
    match finding.kind {
        super::Suspicion::ContradictingLabels if noun.ends_with('s') => "images",
        super::Suspicion::ContradictingLabels => "image",
        _ => noun,
    }
}

fn rest(f: &mut fmt::Formatter<'_>, count: usize, shown: usize) -> fmt::Result {
    if count > shown { writeln!(f, "      … and {} more", thousands(count - shown)) } else { Ok(()) }
}

fn files(count: usize) -> String {
    if count == 1 { "1 file".into() } else { format!("{} files", thousands(count)) }
}

/// A bar for each label; each split is a whole of its own.
fn bars(labels: &[LabelCount]) -> Vec<String> {
    let name = |label: &LabelCount| match &label.split {
        Some(split) => format!("{split} {}", label.name),
        None => label.name.clone(),
    };
    let wide = labels.iter().map(|label| name(label).chars().count()).max().unwrap_or(0);
    let line = |label: &LabelCount| {
        let whole: usize =
            labels.iter().filter(|other| other.split == label.split).map(|label| label.count).sum();
        let filled = (label.count * BAR).div_ceil(whole.max(1)).min(BAR);
        let bar = format!("{}{}", "█".repeat(filled), "░".repeat(BAR - filled));
        format!("{:wide$}  {bar} {:>4}  {}", name(label), percent(label.count, whole), thousands(label.count))
    };
    labels.iter().map(line).collect()
}

fn widths(widths: &[VectorWidth]) -> Vec<String> {
    match widths {
        [] => Vec::new(),
        [one] => vec![format!("{} numbers", one.width)],
        many => {
            let all =
                many.iter().map(|width| format!("{} numbers ({} episodes)", width.width, width.episodes));
            vec![all.collect::<Vec<_>>().join(", ")]
        }
    }
}

fn percent(part: usize, whole: usize) -> String {
    format!("{:.0}%", 100.0 * part as f64 / whole.max(1) as f64)
}

/// 1234567 as 1,234,567.
fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        let _ = text.write_char(digit);
    }
    text
}
