//! Notices in a batch record, as attributes, and back.

use aws_sdk_dynamodb::types::AttributeValue;
use protocol::batch::{Notice, NoticeKind};

use crate::attributes::{MalformedItem, StoredItem, item_of, ms, n, required, s};

/// Returns a notice as an element of `notices`.
pub(crate) fn notice_value(notice: &Notice) -> AttributeValue {
    // A notice with an error is about the error; one without is about the completion.
    let error = match &notice.kind {
        NoticeKind::Error { error } => Some(s(error)),
        NoticeKind::Complete => None,
    };
    AttributeValue::M(item_of([
        ("number", Some(n(notice.number))),
        ("at", Some(ms(notice.at))),
        ("parts", Some(n(notice.parts))),
        ("setAside", Some(n(notice.set_aside))),
        ("frozen", notice.frozen.then(|| n(1))),
        ("error", error),
    ]))
}

/// Reads an element of `notices`.
pub(crate) fn read_notice(mut notice: StoredItem<'_>) -> Result<Notice, MalformedItem> {
    let error = notice.string("error")?;
    Ok(Notice {
        kind: error.map_or(NoticeKind::Complete, |error| NoticeKind::Error { error }),
        number: required(&mut notice, "number", StoredItem::number)?,
        at: required(&mut notice, "at", StoredItem::time_ms)?,
        parts: required(&mut notice, "parts", StoredItem::number)?,
        frozen: notice.number::<u8>("frozen")?.is_some(),
        set_aside: required(&mut notice, "setAside", StoredItem::number)?,
    })
}
