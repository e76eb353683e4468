//! How the records of a part are laid out in its file, whatever their format.

use std::io::{self, Write};

use crate::dates::Zone;
use crate::encoding::{Encoding, LineEnd};
use crate::part::Part;
use crate::paths::PathTemplate;
use crate::reject::RejectReason;
use crate::template::{Facts, Target, Template};
use crate::totals::Totals;

/// The layout of a part. The default is UTF-8, with a line feed at the end of each record, and nothing but records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The character encoding.
    pub encoding: Encoding,
    /// The end of a record.
    pub line_end: LineEnd,
    /// The record before all others.
    pub header: Option<Template>,
    /// The record after all others.
    pub trailer: Option<Template>,
    /// The path of a part's records below the sink, if it is not `<batchId>/<part>.<ext>`.
    pub path: Option<PathTemplate>,
    /// The time zone of dates.
    pub zone: Zone,
}

/// A header, a trailer or a path that cannot be written for a part.
#[derive(Debug, thiserror::Error)]
#[error("part {part}: {which}: {problem}")]
pub struct LayoutFailed {
    part: String,
    which: &'static str,
    problem: String,
}

impl LayoutFailed {
    /// Returns whether `error` is one of these. Another attempt would have the same error.
    pub fn is_cause_of(error: &io::Error) -> bool {
        error
            .get_ref()
            .is_some_and(|inner| inner.is::<LayoutFailed>())
    }
}

impl Layout {
    /// Returns the totals of no records.
    pub(crate) fn totals(&self) -> Totals<'_> {
        let templates = [&self.header, &self.trailer];
        Totals::of(templates.into_iter().flatten().flat_map(Template::totals))
    }

    /// Checks that the length of a record can be said, if it is.
    pub(crate) fn check_length(&self, record: &[u8]) -> Result<(), RejectReason> {
        match self.line_end == LineEnd::Rdw && record.len() > DESCRIBED_LENGTH_MAX {
            true => Err(RejectReason::TooLong {
                length: record.len(),
                length_max: DESCRIBED_LENGTH_MAX,
            }),
            false => Ok(()),
        }
    }

    /// Writes a record, and what says where it ends. The record is in the encoding of the layout, and its length was checked.
    pub(crate) fn write(&self, record: &[u8], to: &mut impl Write) -> io::Result<()> {
        if self.line_end == LineEnd::Rdw {
            to.write_all(&descriptor_word(record.len()))?;
        }
        to.write_all(record)?;
        to.write_all(self.line_end.bytes(self.encoding))
    }

    /// Writes a record that is not of an event. Its characters were checked.
    ///
    /// # Errors
    /// [`LayoutFailed`] if it is too long; otherwise the writer failed.
    pub(crate) fn write_text(
        &self,
        which: &'static str,
        text: &str,
        part: &Part,
        to: &mut impl Write,
    ) -> io::Result<()> {
        let record = self.encoding.encoded(text);
        let checked = self.check_length(&record);
        checked.map_err(|reason| failed(part, which, reason.to_string()))?;
        self.write(&record, to)
    }

    /// Writes the header or the trailer, if there is one, of a part whose records have these totals.
    ///
    /// # Errors
    /// [`LayoutFailed`] if a value does not fit; otherwise the writer failed.
    pub(crate) fn write_template(
        &self,
        which: &'static str,
        template: &Option<Template>,
        part: &Part,
        totals: &Totals<'_>,
        to: &mut impl Write,
    ) -> io::Result<()> {
        let Some(template) = template else {
            return Ok(());
        };
        let text = template.text(&Facts {
            part,
            zone: &self.zone,
            totals,
            target: Target::Record(self.encoding),
        });
        let text = text.map_err(|problem| failed(part, which, problem))?;
        self.write_text(which, &text, part, to)
    }

    /// Returns the path of a part's records below the sink, if there is a template for it.
    ///
    /// # Errors
    /// [`LayoutFailed`]
    pub fn path(&self, part: &Part) -> io::Result<Option<String>> {
        let path = self.path.as_ref().map(|path| path.text(part, &self.zone));
        path.transpose()
            .map_err(|problem| failed(part, "path", problem))
    }

    /// Returns whether parts need numbers.
    pub fn needs_sequence(&self) -> bool {
        let mut records = [&self.header, &self.trailer].into_iter().flatten();
        records.any(Template::has_sequence)
            || self.path.as_ref().is_some_and(PathTemplate::has_sequence)
    }
}

/// Bytes of a record whose length is said: the word counts too, and data sets have records of 32,760 bytes at most.
const DESCRIBED_LENGTH_MAX: usize = 32_756;

/// Returns the record descriptor word: the length of the record and of the word itself, big endian, and two zeros. Source: z/OS DFSMS
/// Using Data Sets, "Format-V records" (2026-11).
fn descriptor_word(length: usize) -> [u8; 4] {
    let [.., high, low] = (length + 4).to_be_bytes();
    [high, low, 0, 0]
}

fn failed(part: &Part, which: &'static str, problem: String) -> io::Error {
    io::Error::other(LayoutFailed {
        part: part.key(),
        which,
        problem,
    })
}
