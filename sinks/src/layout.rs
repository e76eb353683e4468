//! How the records of a part are laid out in its file, whatever their format.

use std::io::{self, Write};

use crate::encoding::{Encoding, LineEnd};

/// The layout of a part. The default is UTF-8, with a line feed at the end of each record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The character encoding.
    pub encoding: Encoding,
    /// What ends a record.
    pub line_end: LineEnd,
}

impl Layout {
    /// Returns what differs from the default layout, by name.
    pub(crate) fn settings(&self) -> Vec<(&'static str, String)> {
        let Layout { encoding, line_end } = self;
        let mut settings = Vec::new();
        if *encoding != Encoding::default() {
            settings.push(("encoding", encoding.name().to_owned()));
        }
        if *line_end != LineEnd::default() {
            settings.push(("line-end", line_end.name().to_owned()));
        }
        settings
    }

    /// Writes a record and its line end. The characters of the record were checked.
    pub(crate) fn write(&self, record: &str, to: &mut impl Write) -> io::Result<()> {
        match self.encoding {
            Encoding::Utf8 => to.write_all(record.as_bytes())?,
            encoding => {
                let mut bytes = Vec::with_capacity(record.len());
                let pushed = encoding.push(&mut bytes, record);
                pushed.expect("each character of a record was checked");
                to.write_all(&bytes)?;
            }
        }
        to.write_all(self.line_end.bytes(self.encoding))
    }
}
