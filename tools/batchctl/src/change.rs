//! Changes of batches: which ones, by whom and why, and the note that says so in the batch record.

use std::fmt::Display;

use aws::BatchSummary;
use clap::Args;
use protocol::batch::{BatchWrite, OperatorNote, with_note};
use protocol::ids::BatchId;
use protocol::text::counted;
use serde::Serialize;
use shared::retry::Written;

use crate::commands::views::status_word;
use crate::failure::{Done, Failure};
use crate::filter::{Filter, State};
use crate::listing::{BATCHES_MAX, list, resolve};
use crate::outcome::Output;
use crate::service::Service;

/// What a command that changes something says before the options with which it does.
pub const NOTHING_IS_CHANGED: &str = "nothing is changed; to do it";

/// Attempts to write a note about a batch that changes meanwhile.
pub const NOTE_ATTEMPTS_MAX: usize = 5;

/// The options of every command that changes something.
#[derive(Args, Clone, Debug)]
pub struct ChangeArgs {
    /// Do it; without this option, the command only shows what it would do
    #[arg(long)]
    pub yes: bool,
    /// Why you do it; a note in the batch record says so
    #[arg(long, value_name = "TEXT")]
    pub why: Option<String>,
    /// Who you are, for the same note [default: `USER` of the environment]
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
}

/// Who changes something, and why.
#[derive(Clone, Debug)]
pub struct Operator {
    pub by: String,
    pub why: String,
}

impl ChangeArgs {
    /// Returns the options that a command which only showed what it would do must be given to do it.
    pub fn hint(&self) -> String {
        let mut hint = "--yes".to_owned();
        if given(self.why.as_deref()).is_none() {
            hint += " --why TEXT";
        }
        if self.name().is_none() {
            hint += " --by NAME";
        }
        hint
    }

    /// Prints what a command would change, and with which options it does what `to_do` says.
    pub fn only_shown(
        &self,
        output: Output<'_>,
        report: &(impl Serialize + Display),
        to_do: &str,
    ) -> Result<Done, Failure> {
        let hint = self.hint();
        output.print(report, format_args!("{report}{to_do}, add {hint}\n"));
        Ok(Done::OnlyShown)
    }

    /// Returns who changes something; `None` if neither `--by` nor `USER` says so.
    fn name(&self) -> Option<String> {
        given(self.by.as_deref()).or_else(|| given(std::env::var("USER").ok().as_deref()))
    }

    /// Returns who changes something; `None` if the command only shows what it would do.
    ///
    /// # Errors
    /// `--yes` is given without a reason or a name.
    pub fn operator(&self) -> Result<Option<Operator>, Failure> {
        if !self.yes {
            return Ok(None);
        }
        let why = given(self.why.as_deref()).ok_or_else(|| {
            Failure::Usage(
                "`--why`: missing: with `--yes`, expected the reason of the change".into(),
            )
        })?;
        let by = self.name().ok_or_else(|| {
            Failure::Usage("`--by`: missing: expected your name, because `USER` is not set".into())
        })?;
        Ok(Some(Operator { by, why }))
    }
}

fn given(value: Option<&str>) -> Option<String> {
    let given = value.filter(|text| !text.trim().is_empty());
    given.map(str::to_owned)
}

/// The batches that a command changes: by id, or by a filter.
#[derive(Args, Clone, Debug)]
pub struct Selection {
    /// Batch ids, or their first characters
    #[arg(value_name = "BATCH")]
    pub batches: Vec<String>,
    #[command(flatten)]
    pub filter: Filter,
}

impl Selection {
    /// Returns the selected batches. A filter without a state selects batches in error. Tells which batches are left out.
    ///
    /// # Errors
    /// Nothing selects a batch, or both ids and a filter do; or a batch does not exist.
    pub async fn batches(
        &self,
        service: &Service,
        output: Output<'_>,
    ) -> Result<Vec<BatchSummary>, Failure> {
        match (self.batches.is_empty(), self.filter.is_empty()) {
            (true, true) => Err(Failure::Usage(
                "no batch is selected: expected batch ids, or at least one of `--status`, `--source`, `--key`, \
                 `--error`, `--older-than`, `--younger-than`"
                    .to_owned(),
            )),
            (false, false) => Err(Failure::Usage(
                "batch ids and a filter: expected one of them".to_owned(),
            )),
            (true, false) => self.filtered(service, output).await,
            (false, true) => self.named(service).await,
        }
    }

    async fn filtered(
        &self,
        service: &Service,
        output: Output<'_>,
    ) -> Result<Vec<BatchSummary>, Failure> {
        let mut filter = self.filter.clone();
        if filter.status.is_empty() {
            filter.status = vec![State::Error];
        }
        let listing = list(service, &filter, BATCHES_MAX).await?;
        for error in &listing.malformed {
            output.tell(&format!(
                "left out, because its record is not readable: {error}"
            ));
        }
        // Fewer batches than the index shows may also be selected because some have changed since.
        if listing.matching > BATCHES_MAX {
            let all = listing.matching;
            output.tell(&format!(
                "{BATCHES_MAX} of {all} batches are selected; run the command again for others"
            ));
        }
        Ok(listing.batches)
    }

    async fn named(&self, service: &Service) -> Result<Vec<BatchSummary>, Failure> {
        let mut batches = Vec::new();
        for text in &self.batches {
            let id = resolve(service, text).await?;
            batches.push(BatchSummary::of(service.known_record(id).await?));
        }
        Ok(batches)
    }
}

/// Writes a note about what is about to be done to a batch, on condition that the batch is as it was read. Returns the note.
///
/// # Errors
/// [`Failure::Changed`] if the batch changed since; nothing was written then.
pub async fn note(
    service: &Service,
    batch: &BatchSummary,
    operator: &Operator,
    action: &str,
) -> Result<OperatorNote, Failure> {
    let note = OperatorNote::new(service.now(), &operator.by, action, &operator.why);
    let write = BatchWrite::Note {
        status: batch.status,
        attempts: batch.attempts,
        notes_count: batch.notes_count,
        notes: with_note(&batch.notes, note.clone()),
    };
    let budget = service.budget();
    let id = batch.batch_id;
    match budget.write(&*service.batch_store, id, &write).await? {
        Written::Applied(_) => Ok(note),
        Written::Refused(None) => Err(Failure::no_batch(id)),
        Written::Refused(Some(record)) => {
            let (was, is) = (status_word(batch.status), status_word(record.status));
            let message = format!(
                "batch `{id}`: changed since it was read: got status `{is}`, {} and {}, expected `{was}`, {} and {}",
                counted(record.attempts, "lease"),
                counted(record.notes_count, "note"),
                batch.attempts,
                batch.notes_count
            );
            Err(Failure::Changed { message, record })
        }
    }
}

/// Puts a note about the outcome in the place of the note `began`, whatever has become of the batch since.
///
/// # Errors
/// The record is gone, or changes all the time.
pub async fn note_outcome(
    service: &Service,
    id: BatchId,
    began: &OperatorNote,
    action: &str,
) -> Result<(), Failure> {
    let mut record = service.known_record(id).await?;
    for _ in 0..NOTE_ATTEMPTS_MAX {
        let outcome = OperatorNote::new(service.now(), &began.by, action, &began.why);
        record.notes.retain(|note| note != began);
        let write = BatchWrite::Note {
            status: record.status,
            attempts: record.attempts,
            notes_count: record.notes_count,
            notes: with_note(&record.notes, outcome),
        };
        let budget = service.budget();
        match budget.write(&*service.batch_store, id, &write).await? {
            Written::Applied(_) => return Ok(()),
            Written::Refused(changed) => record = *changed.ok_or_else(|| Failure::no_batch(id))?,
        }
    }
    Err(Failure::Refused(format!(
        "batch `{id}`: the note `{}` stays, because the record changed at each of {NOTE_ATTEMPTS_MAX} attempts to replace it by `{action}`",
        began.action
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(yes: bool, why: Option<&str>, by: Option<&str>) -> ChangeArgs {
        ChangeArgs {
            yes,
            why: why.map(str::to_owned),
            by: by.map(str::to_owned),
        }
    }

    #[test]
    fn the_hint_names_each_option_that_is_missing() {
        let user = std::env::var("USER").is_ok_and(|name| !name.is_empty());
        let by = if user { "" } else { " --by NAME" };
        let hint = format!("--yes --why TEXT{by}");
        assert_eq!(args(false, None, None).hint(), hint);
        assert_eq!(args(false, Some("why"), Some("me")).hint(), "--yes");
    }

    #[test]
    fn a_change_needs_a_reason() {
        assert!(args(false, None, None).operator().unwrap().is_none());
        let operator = args(true, Some("fixed"), Some("me")).operator().unwrap();
        assert_eq!(operator.unwrap().why, "fixed");
        for why in [None, Some(" ")] {
            let error = args(true, why, Some("me")).operator().unwrap_err();
            assert!(error.to_string().starts_with("`--why`: missing"), "{error}");
        }
    }
}
