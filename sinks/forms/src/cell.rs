//! What a record has for its columns.

use std::borrow::Cow;

use shared::ports::StoredEvent;

use crate::columns::{Body, Column};
use crate::encoding::Encoding;
use crate::layout::Layout;
use crate::part::Part;
use crate::reject::RejectReason;
use crate::types::Stored;

/// What a record has for a column.
pub(crate) struct Cell<'p> {
    /// The value as totals read it.
    value: Cow<'p, str>,
    /// What is written, if it is not that.
    stored: Option<Stored>,
}

impl Cell<'_> {
    /// Returns the text that is written; nothing for bytes.
    pub(crate) fn written(&self) -> &str {
        match &self.stored {
            None => &self.value,
            Some(Stored::Text(text)) => text,
            Some(Stored::Bytes(_)) => "",
        }
    }

    /// Returns whether nothing was found, or an empty text.
    pub(crate) fn is_null(&self) -> bool {
        self.value.is_empty()
    }

    /// Returns the bytes that are written, whatever the encoding is.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match &self.stored {
            Some(Stored::Bytes(bytes)) => Some(bytes),
            _ => None,
        }
    }
}

impl AsRef<str> for Cell<'_> {
    fn as_ref(&self) -> &str {
        &self.value
    }
}

/// Returns the cells of an event. The characters of their texts are in the encoding.
pub(crate) fn cells<'p>(
    columns: impl Iterator<Item = &'p Column>,
    layout: &Layout,
    part: &'p Part,
    item: &'p StoredEvent,
) -> Result<Vec<Cell<'p>>, RejectReason> {
    let mut body = Body::of(item);
    let cell = |column: &Column| {
        let cell = match (column.value(part, item, &mut body)?, &column.kind) {
            (None, kind) => {
                if kind.as_ref().is_some_and(|kind| kind.width().is_some()) {
                    column.check_null()?;
                }
                Cell {
                    value: Cow::Borrowed(""),
                    stored: None,
                }
            }
            (Some(value), kind) => Cell {
                stored: kind
                    .as_ref()
                    .and_then(|kind| kind.stored(&value, &layout.zone)),
                value: value.into_text(),
            },
        };
        check(&cell, column, layout.encoding)?;
        Ok(cell)
    };
    columns.map(cell).collect()
}

fn check(cell: &Cell<'_>, column: &Column, encoding: Encoding) -> Result<(), RejectReason> {
    encoding.check(cell.written()).map_err(|wrong| {
        let place = format!("column `{}`", column.name);
        RejectReason::not_in_encoding(&place, wrong, encoding)
    })
}
