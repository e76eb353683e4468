//! Compares the delivered files with the workload.
//!
//! The audit reads every part once, line by line. It identifies an event by the id in the body, whatever the service uses as
//! the event id. It renders the planned body again and compares the two byte by byte. Of an event with two bodies, either one
//! may be delivered with the drop rule; with the requeue rule, each as often as it was sent.
//!
//! Memory does not grow with the bytes. It takes a bit for each event with the drop rule, and 1 byte for each event and 5 for each
//! message of an event with repeats with the requeue rule. Several threads read files; one counts, in the order of the files.
//!
//! How problems are counted: a corrupt line counts once, for the first reason found. It still counts as a delivery of the
//! event that its body names. If its body names no event, the event is counted as lost as well. A line that is in a part
//! twice counts as repeated only, not as mixed or corrupt too.
//!
//! A part may have a reject list, `<part>.rejects`: envelopes with a reason, of events that the part's format could not
//! carry. A rejected event is neither lost nor delivered. If it is in a part as well, it is repeated.
//!
//! A part's manifest, `<part>.manifest.json`, is compared with the part. It says where the part is, which is elsewhere with
//! `SINK_PATH`. A manifest without a part counts as corrupt, and so does a missing manifest if manifests are required.
//!
//! The counts always satisfy: expected deliveries − lost + repeated = delivered + rejected.

mod check;
mod error;
mod layout;
mod ledger;
mod line;
mod manifest;
mod pool;
mod report;
mod rule;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;

use crate::workload::{Content, Workload};
use check::{EventLine, Finding, Place, Problem};
pub use error::AuditError;
use layout::Elsewhere;
use ledger::{Delivery, Ledger};
use line::Corruption;
use manifest::Fault;
use pool::{End, FileContent, Found, Pool};
use protocol::text::counted;
pub use report::{AuditReport, Batches, Example, Examples};
use report::{EXAMPLES_MAX, note};
pub use rule::DuplicateRule;

/// How many files are read ahead, at least, if there are as many.
const FILES_AHEAD: usize = 8;

/// Whether parts must have manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manifests {
    /// Parts may be without manifests. Existing manifests are checked.
    Optional,
    /// Every part must have a manifest, as the sinks `file:` and `s3:` write it.
    Required,
}

/// Compares the parts below `dir`, which are `<batchId>/<part>.<ext>` at any depth or where their manifests say, with a workload.
/// Parts that are compressed by gzip or zstd are decompressed.
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
    audit_watched(dir, workload, rule, manifests, &mut |_, _, _| {})
}

/// Compares parts with a workload as [`audit`] does, and calls `delivered` for each event in a part, with the batch id, the
/// number of the part and the number of the event.
///
/// # Errors
/// Those of [`audit`].
pub fn audit_watched(
    dir: &Path,
    workload: &Workload,
    rule: DuplicateRule,
    manifests: Manifests,
    delivered: &mut dyn FnMut(&str, u64, u64),
) -> Result<AuditReport, AuditError> {
    let mut auditor = Auditor::new(dir, workload, rule, manifests, delivered);
    let mut strays = Vec::new();
    let dirs = layout::batch_dirs(dir, &mut strays)?;
    let elsewhere = Elsewhere::find(dir, &dirs)?;
    strays.retain(|file| !elsewhere.contains(file));
    Pool::with(workload, |pool| {
        let mut ahead: VecDeque<Reading> = VecDeque::new();
        for dir in dirs {
            let batch = layout::batch(&dir, &elsewhere, &mut strays)?;
            ahead.push_back(Reading::start(batch, &pool));
            while ahead.iter().skip(1).map(Reading::files).sum::<usize>() >= FILES_AHEAD {
                let first = ahead.pop_front();
                first.map_or(Ok(()), |batch| auditor.batch(batch))?;
            }
        }
        ahead.into_iter().try_for_each(|batch| auditor.batch(batch))
    })?;
    for stray in strays {
        auditor.stray(&stray);
    }
    Ok(auditor.finish())
}

/// A batch whose files are being read.
struct Reading {
    batch: layout::Batch,
    parts: Vec<Receiver<Found>>,
    rejects: Vec<Receiver<Found>>,
}

impl Reading {
    fn start(batch: layout::Batch, pool: &Pool) -> Self {
        let read = |files: &[(u64, PathBuf)], rejected| {
            let place = |part| Place {
                batch_id: batch.id.clone(),
                part,
                rejected,
            };
            let files = files.iter().map(|(part, path)| {
                let sha256 = !rejected && batch.manifests.contains_key(part);
                pool.read(path, place(*part), sha256)
            });
            files.collect::<Vec<_>>()
        };
        let (parts, rejects) = (read(&batch.parts, false), read(&batch.rejects, true));
        Self {
            batch,
            parts,
            rejects,
        }
    }

    fn files(&self) -> usize {
        self.parts.len() + self.rejects.len()
    }
}

struct Auditor<'a> {
    dir: &'a Path,
    workload: &'a Workload,
    manifests: Manifests,
    /// Called with each event in a part.
    delivered: &'a mut dyn FnMut(&str, u64, u64),
    ledger: Ledger,
    report: AuditReport,
    event_ids: EventIds,
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
    batch_ordinal: u32,
    batch_id: &'a str,
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
        delivered: &'a mut dyn FnMut(&str, u64, u64),
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
            delivered,
            ledger: Ledger::new(workload, rule),
            report,
            event_ids: EventIds::default(),
        }
    }

    fn batch(&mut self, reading: Reading) -> Result<(), AuditError> {
        let Reading {
            batch,
            parts,
            rejects,
        } = reading;
        let lines_before = self.report.lines;
        let mut rejected = BTreeMap::new();
        let mut read = Vec::with_capacity(batch.parts.len());
        for ((part, path), found) in batch.parts.iter().zip(parts) {
            let content = self.file((&batch.id, *part), path, false, found)?;
            read.push((*part, path, content));
        }
        for ((part, path), found) in batch.rejects.iter().zip(rejects) {
            let content = self.file((&batch.id, *part), path, true, found)?;
            rejected.insert(*part, content.map_or(0, |content| content.lines));
        }
        for (part, path, content) in read {
            let rejected = rejected.get(&part).copied().unwrap_or_default();
            self.manifest(&batch, part, path, content, rejected)?;
        }
        let parts: BTreeSet<u64> = batch.parts.iter().map(|(part, _)| *part).collect();
        for (part, path) in &batch.manifests {
            if !parts.contains(part) {
                self.faulty(path, &Fault::NoPart);
            }
        }
        if !batch.parts.is_empty() || !batch.rejects.is_empty() {
            let lines = self.report.lines - lines_before;
            self.report.batches.add(batch.parts.len() as u64, lines);
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
        let Some(file) = content else {
            return Ok(());
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let content = manifest::Content {
            name: &name,
            rejected,
            file,
        };
        let text = fs::read(manifest).map_err(|source| AuditError::read(manifest, source))?;
        if let Some(fault) = manifest::difference(&text, &batch.id, part, &content) {
            self.faulty(manifest, &fault);
        }
        Ok(())
    }

    /// Counts what is found in a part or a reject list; returns its content, or `None` if it could not be decompressed to its
    /// end.
    fn file(
        &mut self,
        (batch_id, part): (&str, u64),
        path: &Path,
        rejected: bool,
        found: Receiver<Found>,
    ) -> Result<Option<FileContent>, AuditError> {
        let file = self.name(path);
        let mut position = Position {
            batch_ordinal: self.report.batches.count as u32 + 1,
            batch_id,
            part,
            rejected,
            file: &file,
            line: 0,
        };
        for found in found {
            match found {
                Found::Lines(findings) => {
                    for finding in findings {
                        position.line += 1;
                        self.report.lines += u64::from(!rejected);
                        self.finding(&position, finding);
                    }
                }
                Found::End(Ok(End::Whole(content))) => return Ok(Some(content)),
                Found::End(Ok(End::Cut(why))) => {
                    position.line += 1;
                    self.corrupt(&position, None, &why);
                }
                Found::End(Err(source)) => return Err(AuditError::read(path, source)),
            }
        }
        Ok(None)
    }

    fn finding(&mut self, position: &Position<'_>, finding: Finding) {
        match finding {
            Finding::Corrupt(why) => self.corrupt(position, None, &why),
            Finding::Foreign(id) => {
                let why = "the event is not of this workload";
                let report = &mut self.report;
                note(&mut report.foreign, &mut report.examples.foreign, || {
                    position.example(Some(&id), &why)
                });
            }
            Finding::Event(line) => self.event(position, line),
        }
    }

    fn event(&mut self, position: &Position<'_>, mut line: EventLine) {
        if line.content == Content::Changed && !self.ledger.has_two_bodies(line.number) {
            line.content = Content::Original;
            line.problem.get_or_insert_default().body = Some(Corruption::OnlyOneBody);
        }
        match position.rejected {
            true => self.report.rejected += 1,
            false => {
                self.report.delivered += 1;
                (self.delivered)(position.batch_id, position.part, line.number);
            }
        }
        let entry = self.ledger.record(&Delivery {
            number: line.number,
            content: line.content,
            batch: position.batch_ordinal,
            message_hash: line.message_hash,
        });
        let workload = self.workload;
        let example = |why: &dyn std::fmt::Display| {
            position.example(Some(&workload.event_id(line.number)), why)
        };
        self.event_ids.are_body_ids |= line.event_id_is_body_id;
        if let Some(problem) = line.problem {
            self.problem(position, line.number, *problem, entry.surplus.is_some());
        }
        let (report, why) = (&mut self.report, "the event is in this batch already");
        if let Some(surplus) = entry.surplus {
            note(&mut report.repeated, &mut report.examples.repeated, || {
                example(&surplus)
            });
        } else if entry.mixed {
            note(&mut report.mixed, &mut report.examples.mixed, || {
                example(&why)
            });
        }
    }

    /// Counts the first problem of a line.
    fn problem(&mut self, position: &Position<'_>, number: u64, problem: Problem, surplus: bool) {
        let id = self.workload.event_id(number);
        // A surplus delivery counts as one problem: a wrong seq would only follow from it.
        let of_envelope = problem
            .envelope
            .filter(|what| !surplus || !matches!(what, Corruption::Seq { .. }));
        if let Some(why) = of_envelope.or(problem.body) {
            self.corrupt(position, Some(&id), &why);
        } else if let Some(event_id) = problem.event_id {
            let EventIds {
                are_body_ids,
                differing,
                examples,
            } = &mut self.event_ids;
            *are_body_ids |= event_id.is_of_workload;
            let why = Corruption::EventId(event_id.text);
            note(differing, examples, || position.example(Some(&id), &why));
        }
    }

    fn corrupt(&mut self, position: &Position<'_>, id: Option<&str>, why: &Corruption) {
        let (count, examples) = (&mut self.report.corrupt, &mut self.report.examples.corrupt);
        note(count, examples, || position.example(id, why));
    }

    fn stray(&mut self, path: &Path) {
        self.faulty(
            path,
            &"not a part: expected a path `<batchId>/<part>.<ext>`, or one that a manifest names",
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
        let lost = &mut report.examples.lost;
        for (number, missing) in self.ledger.missing() {
            report.lost += u64::from(missing);
            if lost.len() < EXAMPLES_MAX {
                lost.push(Example {
                    id: Some(self.workload.event_id(number)),
                    why: format!("missing: {}", counted(missing, "delivery")),
                    ..Example::default()
                });
            }
        }
        report.conflicts = self.ledger.conflicts();
        if self.event_ids.are_body_ids {
            report.corrupt += self.event_ids.differing;
            let corrupt = &mut report.examples.corrupt;
            let room = EXAMPLES_MAX - corrupt.len();
            corrupt.extend(self.event_ids.examples.into_iter().take(room));
        }
        report.batches.summarise();
        report.decide();
        self.report
    }
}
