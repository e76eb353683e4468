//! Notices in a batch record, as attributes, and back.

use aws_sdk_dynamodb::types::AttributeValue;
use protocol::batch::{Notice, NoticeKind};

use super::attributes::{Item, MalformedItem, StoredItem, ms, n, required, s};

/// Returns notices as the value of `notices`.
pub(super) fn notices_value(notices: &[Notice]) -> AttributeValue {
    AttributeValue::L(notices.iter().map(notice_value).collect())
}

fn notice_value(notice: &Notice) -> AttributeValue {
    let mut map = Item::from([
        ("number".to_owned(), n(notice.number)),
        ("at".to_owned(), ms(notice.at)),
        ("parts".to_owned(), n(notice.parts)),
        ("setAside".to_owned(), n(notice.set_aside)),
    ]);
    if notice.frozen {
        map.insert("frozen".to_owned(), n(1));
    }
    // A notice with an error is about the error; one without is about the completion.
    if let NoticeKind::Error { error } = &notice.kind {
        map.insert("error".to_owned(), s(error));
    }
    AttributeValue::M(map)
}

pub(super) fn notices(item: &mut StoredItem<'_>) -> Result<Vec<Notice>, MalformedItem> {
    let notices = item.maps("notices")?;
    let notice = |notice| {
        let mut notice = item.nested(notice);
        let error = notice.string("error")?;
        Ok(Notice {
            kind: error.map_or(NoticeKind::Complete, |error| NoticeKind::Error { error }),
            number: required(&mut notice, "number", StoredItem::number)?,
            at: required(&mut notice, "at", StoredItem::time_ms)?,
            parts: required(&mut notice, "parts", StoredItem::number)?,
            frozen: notice.number::<u8>("frozen")?.is_some(),
            set_aside: required(&mut notice, "setAside", StoredItem::number)?,
        })
    };
    notices.into_iter().map(notice).collect()
}
