//! Compares the delivered files with the workload.
//!
//! The audit reads every part once, line by line. It identifies an event by the id in the body, whatever the service uses as
//! the event id. It renders the planned body again and compares the two byte by byte.
//!
//! How problems are counted: a corrupt line counts once, for the first reason found. It still counts as a delivery of the
//! event that its body names. If its body names no event, the event is counted as lost as well. A line that is in a part
//! twice counts as repeated only, not as mixed or corrupt too.
//!
//! A part may have a reject list, `<part>.rejects`: envelopes with a reason, of events that the part's format could not
//! carry. A rejected event is neither lost nor delivered. If it is in a part as well, it is repeated.
//!
//! A part's manifest, `<part>.manifest.json`, is compared with the part. A manifest without a part counts as corrupt, and so
//! does a missing manifest if manifests are required.
//!
//! The counts always satisfy: expected deliveries − lost + repeated = delivered + rejected.

mod error;
mod layout;
mod ledger;
mod line;
mod manifest;
mod report;
mod rule;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::workload::Workload;
pub use error::AuditError;
use ledger::Ledger;
use line::{Corruption, Envelope, Format};
use manifest::Fault;
pub use report::{AuditReport, Batches, Example, Examples};
use report::{EXAMPLES_MAX, note};
pub use rule::DuplicateRule;

const READ_BUFFER_BYTES: usize = 1 << 20;

/// Whether parts must have manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manifests {
    /// Parts may be without manifests. Existing manifests are checked.
    Optional,
    /// Every part must have a manifest, as the sinks `file:` and `s3:` write it.
    Required,
}

/// Compares the parts below `dir`, which are `<batchId>/<part>.<ext>` at any depth, with a workload. Parts whose names end in
/// `.gz` or `.zst` are decompressed.
///
/// The format of a file, envelopes or bodies, is recognised by its first line that has either format.
///
/// # Errors
/// [`AuditError`] if a directory or file cannot be read. Problems *inside* files are in the report.
pub fn audit(
    dir: &Path,
    workload: &Workload,
    rule: DuplicateRule,
    manifests: Manifests,
) -> Result<AuditReport, AuditError> {
    let mut auditor = Auditor::new(dir, workload, rule, manifests);
    let mut strays = Vec::new();
    for batch_dir in layout::batch_dirs(dir, &mut strays)? {
        let batch = layout::batch(&batch_dir, &mut strays)?;
        auditor.batch(&batch)?;
    }
    for stray in strays {
        auditor.stray(&stray);
    }
    Ok(auditor.finish())
}

struct Auditor<'a> {
    dir: &'a Path,
    workload: &'a Workload,
    manifests: Manifests,
    ledger: Ledger,
    report: AuditReport,
    event_ids: EventIds,
    planned: Vec<u8>,
}

/// The facts about a file that was read to its end.
struct FileContent {
    lines: u64,
    bytes: u64,
    hash: blake3::Hash,
}

/// Envelopes whose event id differs from the id in the body. Whether that is wrong depends on the
/// service's `EVENT_ID`, which the audit does not know. If the event id of one envelope ends in an
/// id of this workload, the event ids of all envelopes must end in the ids of their bodies.
#[derive(Default)]
struct EventIds {
    are_body_ids: bool,
    differing: u64,
    examples: Vec<Example>,
}

/// The position of a line.
struct Position<'a> {
    batch_id: &'a str,
    batch_ordinal: u32,
    part: u64,
    /// Whether the line is in a reject list.
    rejected: bool,
    file: &'a str,
    line: u64,
}

impl Position<'_> {
    fn example(&self, id: Option<&str>, why: &dyn std::fmt::Display) -> Example {
        Example {
            id: id.map(str::to_owned),
            file: Some(self.file.to_owned()),
            line: Some(self.line),
            why: why.to_string(),
        }
    }
}

impl<'a> Auditor<'a> {
    fn new(
        dir: &'a Path,
        workload: &'a Workload,
        rule: DuplicateRule,
        manifests: Manifests,
    ) -> Self {
        let report = AuditReport {
            sent: workload.len(),
            unique: workload.unique(),
            ..AuditReport::default()
        };
        Self {
            dir,
            workload,
            manifests,
            ledger: Ledger::new(workload, rule),
            report,
            event_ids: EventIds::default(),
            planned: Vec::new(),
        }
    }

    fn batch(&mut self, batch: &layout::Batch) -> Result<(), AuditError> {
        let lines_before = self.report.lines;
        let mut rejected = BTreeMap::new();
        let mut read = Vec::with_capacity(batch.parts.len());
        for (part, path) in &batch.parts {
            let content = self.part(batch, *part, path, false);
            read.push((
                *part,
                path,
                content.map_err(|source| read_error(path, source))?,
            ));
        }
        for (part, path) in &batch.rejects {
            let content = self.part(batch, *part, path, true);
            let content = content.map_err(|source| read_error(path, source))?;
            rejected.insert(*part, content.map_or(0, |content| content.lines));
        }
        for (part, path, content) in read {
            let rejected = rejected.get(&part).copied().unwrap_or_default();
            self.manifest(batch, part, path, content, rejected)?;
        }
        let parts: BTreeSet<u64> = batch.parts.iter().map(|(part, _)| *part).collect();
        for (part, path) in &batch.manifests {
            if !parts.contains(part) {
                self.faulty(path, &Fault::NoPart);
            }
        }
        if !batch.parts.is_empty() || !batch.rejects.is_empty() {
            self.report
                .batches
                .add(batch.parts.len() as u64, self.report.lines - lines_before);
        }
        Ok(())
    }

    /// Compares the manifest of a part with its content, which is `None` if the part could not be read to its end.
    fn manifest(
        &mut self,
        batch: &layout::Batch,
        part: u64,
        path: &Path,
        content: Option<FileContent>,
        rejected: u64,
    ) -> Result<(), AuditError> {
        let Some(manifest) = batch.manifests.get(&part) else {
            if self.manifests == Manifests::Required {
                self.faulty(path, &Fault::Missing(part));
            }
            return Ok(());
        };
        let Some(FileContent { lines, bytes, hash }) = content else {
            return Ok(());
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let content = manifest::Content {
            name: &name,
            lines,
            rejected,
            bytes,
            hash,
        };
        let text = fs::read(manifest).map_err(|source| read_error(manifest, source))?;
        if let Some(fault) = manifest::difference(&text, &batch.id, part, &content) {
            self.faulty(manifest, &fault);
        }
        Ok(())
    }

    /// Reads a part or a reject list; returns its content, or `None` if it could not be decompressed to its end.
    fn part(
        &mut self,
        batch: &layout::Batch,
        part: u64,
        path: &Path,
        rejected: bool,
    ) -> io::Result<Option<FileContent>> {
        let file = self.name(path);
        let (plain, compressed) = reader(path)?;
        let mut reader = BufReader::with_capacity(READ_BUFFER_BYTES, plain);
        let mut format = rejected.then_some(Format::Envelope);
        let mut seq_last = None;
        let mut text = Vec::new();
        let mut hasher = blake3::Hasher::new();
        for line in 1.. {
            let position = Position {
                batch_id: &batch.id,
                batch_ordinal: self.report.batches.count as u32 + 1,
                part,
                rejected,
                file: &file,
                line,
            };
            text.clear();
            match reader.read_until(b'\n', &mut text) {
                Ok(0) => {
                    return Ok(Some(FileContent {
                        lines: line - 1,
                        bytes: hasher.count(),
                        hash: hasher.finalize(),
                    }));
                }
                Ok(_) => {}
                Err(error) if compressed => {
                    let why = Corruption::Compression(error.to_string());
                    self.corrupt(&position, None, &why);
                    break;
                }
                Err(error) => return Err(error),
            }
            hasher.update(&text);
            self.report.lines += u64::from(!rejected);
            let text = text.strip_suffix(b"\n").unwrap_or(&text);
            format = format.or_else(|| Format::of(text));
            match format {
                Some(Format::Envelope) => self.envelope(&position, text, &mut seq_last),
                Some(Format::Body) => self.bare_body(&position, text),
                None => self.corrupt(&position, None, &Corruption::Unrecognised),
            }
        }
        Ok(None)
    }

    fn envelope(&mut self, position: &Position<'_>, text: &[u8], seq_last: &mut Option<u64>) {
        let envelope: Envelope<'_> = match serde_json::from_slice(text) {
            Ok(envelope) => envelope,
            Err(error) => {
                return self.corrupt(position, None, &Corruption::Envelope(error.to_string()));
            }
        };
        let seq = envelope.seq;
        let last = seq_last.replace(seq_last.map_or(seq, |last| last.max(seq)));
        let corruption = if envelope.batch_id != position.batch_id {
            Some(Corruption::Batch(envelope.batch_id.clone().into_owned()))
        } else if envelope.part != position.part {
            Some(Corruption::Part(envelope.part))
        } else if position.rejected && envelope.reason.is_none() {
            Some(Corruption::NoReason)
        } else {
            last.filter(|last| *last >= seq)
                .map(|last| Corruption::Seq { last, seq })
        };
        self.body(position, &envelope.body, Some(&envelope), corruption);
    }

    fn bare_body(&mut self, position: &Position<'_>, text: &[u8]) {
        match std::str::from_utf8(text) {
            Ok(body) => self.body(position, body, None, None),
            Err(_) => self.corrupt(position, None, &Corruption::NoId),
        }
    }

    fn body(
        &mut self,
        position: &Position<'_>,
        body: &str,
        envelope: Option<&Envelope<'_>>,
        corruption: Option<Corruption>,
    ) {
        let Some(id) = line::id_of(body) else {
            return self.corrupt(position, None, &Corruption::NoId);
        };
        let Some(number) = self.workload.number_of(&id) else {
            let (count, examples) = (&mut self.report.foreign, &mut self.report.examples.foreign);
            return note(count, examples, || {
                position.example(Some(&id), &"the event is not of this workload")
            });
        };
        match position.rejected {
            true => self.report.rejected += 1,
            false => self.report.delivered += 1,
        }
        let message_id = envelope.map(|envelope| envelope.sqs_message_id.as_ref());
        let entry = self
            .ledger
            .record(number, position.batch_ordinal, message_id);
        // A surplus delivery counts as one problem: a wrong seq or a mixed batch would only follow from it.
        let corruption = corruption
            .filter(|what| entry.surplus.is_none() || !matches!(what, Corruption::Seq { .. }));
        self.workload.render_body(number, &mut self.planned);
        let corruption = corruption
            .or_else(|| line::difference(body.as_bytes(), &self.planned).map(Corruption::Body));
        match (corruption, envelope) {
            (Some(corruption), _) => self.corrupt(position, Some(&id), &corruption),
            (None, Some(envelope)) => self.event_id(position, &id, envelope),
            (None, None) => {}
        }
        if let Some(surplus) = entry.surplus {
            let (count, examples) = (
                &mut self.report.repeated,
                &mut self.report.examples.repeated,
            );
            note(count, examples, || position.example(Some(&id), &surplus));
        } else if entry.mixed {
            let (count, examples) = (&mut self.report.mixed, &mut self.report.examples.mixed);
            note(count, examples, || {
                position.example(Some(&id), &"the event is in this batch already")
            });
        }
    }

    fn event_id(&mut self, position: &Position<'_>, id: &str, envelope: &Envelope<'_>) {
        let Envelope {
            event_id,
            sqs_message_id,
            ..
        } = envelope;
        if event_id.ends_with(id) {
            self.event_ids.are_body_ids = true;
        } else if !event_id.ends_with(sqs_message_id.as_ref()) {
            self.event_ids.are_body_ids |= self.workload.body.id_ending(event_id).is_some();
            note(
                &mut self.event_ids.differing,
                &mut self.event_ids.examples,
                || {
                    position.example(
                        Some(id),
                        &Corruption::EventId(event_id.clone().into_owned()),
                    )
                },
            );
        }
    }

    fn corrupt(&mut self, position: &Position<'_>, id: Option<&str>, why: &Corruption) {
        let (count, examples) = (&mut self.report.corrupt, &mut self.report.examples.corrupt);
        note(count, examples, || position.example(id, why));
    }

    fn stray(&mut self, path: &Path) {
        self.faulty(
            path,
            &"not a part: expected a path `<batchId>/<part>.<ext>`",
        );
    }

    /// Counts a whole file as corrupt.
    fn faulty(&mut self, path: &Path, why: &dyn std::fmt::Display) {
        let file = Some(self.name(path));
        let (count, examples) = (&mut self.report.corrupt, &mut self.report.examples.corrupt);
        note(count, examples, || Example {
            file,
            why: why.to_string(),
            ..Example::default()
        });
    }

    fn name(&self, path: &Path) -> String {
        path.strip_prefix(self.dir)
            .unwrap_or(path)
            .to_string_lossy()
            .into_owned()
    }

    fn finish(mut self) -> AuditReport {
        let report = &mut self.report;
        for (number, missing) in self.ledger.missing() {
            report.lost += u64::from(missing);
            if report.examples.lost.len() < EXAMPLES_MAX {
                report.examples.lost.push(Example {
                    id: Some(self.workload.event_id(number)),
                    why: format!("{missing} deliveries are missing"),
                    ..Example::default()
                });
            }
        }
        if self.event_ids.are_body_ids {
            report.corrupt += self.event_ids.differing;
            let room = EXAMPLES_MAX - report.examples.corrupt.len();
            report
                .examples
                .corrupt
                .extend(self.event_ids.examples.into_iter().take(room));
        }
        report.batches.summarise();
        report.judge();
        self.report
    }
}

fn read_error(path: &Path, source: io::Error) -> AuditError {
    AuditError::Read {
        path: path.to_owned(),
        source,
    }
}

/// Returns a reader of the decompressed file, and whether the file is compressed.
fn reader(path: &Path) -> io::Result<(Box<dyn io::Read>, bool)> {
    let file = File::open(path)?;
    let extension = path.extension().and_then(|extension| extension.to_str());
    Ok(match extension {
        Some("gz") => (Box::new(MultiGzDecoder::new(BufReader::new(file))), true),
        Some("zst") => (Box::new(zstd::Decoder::new(file)?), true),
        Some(_) | None => (Box::new(file), false),
    })
}
