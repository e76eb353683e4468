//! Receipt handles: the queue, the message and the delivery that a handle belongs to.

use super::error::SqsError;

/// Length of a handle: two numbers of 16 hexadecimal digits and one of 8.
const HANDLE_CHARS: usize = 40;

/// The content of a receipt handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Receipt {
    /// Id of the queue. A queue that was deleted and created again has another id.
    pub(super) queue: u64,
    /// Number of the message in that queue.
    pub(super) key: u64,
    /// Number of the delivery of that message, from 1.
    pub(super) receive: u32,
}

impl Receipt {
    pub(super) fn to_handle(self) -> String {
        format!("{:016x}{:016x}{:08x}", self.queue, self.key, self.receive)
    }

    /// Parses a handle.
    ///
    /// # Errors
    /// `ReceiptHandleIsInvalid` if the text is no handle. Whether the queue issued it is not checked here.
    pub(super) fn from_handle(handle: &str) -> Result<Self, SqsError> {
        Self::parse(handle).ok_or_else(|| SqsError::ReceiptHandleIsInvalid {
            handle: handle.to_owned(),
        })
    }

    fn parse(handle: &str) -> Option<Self> {
        let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if handle.len() != HANDLE_CHARS || !handle.bytes().all(hex) {
            return None;
        }
        Some(Self {
            queue: u64::from_str_radix(&handle[..16], 16).ok()?,
            key: u64::from_str_radix(&handle[16..32], 16).ok()?,
            receive: u32::from_str_radix(&handle[32..], 16).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECEIPT: Receipt = Receipt {
        queue: u64::MAX,
        key: 7,
        receive: 3,
    };

    #[test]
    fn a_handle_parses_to_the_receipt_it_was_made_from() {
        assert_eq!(Receipt::from_handle(&RECEIPT.to_handle()), Ok(RECEIPT));
    }

    #[test]
    fn garbage_is_refused() {
        let good = RECEIPT.to_handle();
        for garbage in [
            "",
            "garbage",
            &good[1..],
            &good.to_uppercase().replace('0', "G"),
            &"é".repeat(20),
            &"+".repeat(40),
        ] {
            let error = SqsError::ReceiptHandleIsInvalid {
                handle: garbage.to_owned(),
            };
            assert_eq!(Receipt::from_handle(garbage), Err(error));
        }
    }
}
