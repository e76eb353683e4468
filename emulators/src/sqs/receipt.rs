//! Receipt handles: which delivery of which message of which queue.

use super::error::SqsError;

/// Characters of a handle: two numbers of 16 hexadecimal digits and one of 8.
const HANDLE_CHARS: usize = 40;

/// What a receipt handle says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Receipt {
    /// The queue, as one life of a name: a queue deleted and created again is another.
    pub(super) queue: u64,
    /// The message's number in that queue.
    pub(super) key: u64,
    /// Which of the message's receives this was, from 1.
    pub(super) receive: u32,
}

impl Receipt {
    /// The handle a consumer gets.
    pub(super) fn to_handle(self) -> String {
        format!("{:016x}{:016x}{:08x}", self.queue, self.key, self.receive)
    }

    /// Reads a handle.
    ///
    /// # Errors
    /// `ReceiptHandleIsInvalid` if it does not have the form; whether it was given out, only the queue knows.
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

    #[test]
    fn a_handle_reads_back_as_the_receipt_it_was_made_of() {
        let receipt = Receipt {
            queue: u64::MAX,
            key: 7,
            receive: 3,
        };
        assert_eq!(Receipt::from_handle(&receipt.to_handle()), Ok(receipt));
    }

    #[test]
    fn garbage_is_refused() {
        let good = Receipt {
            queue: 1,
            key: 7,
            receive: 3,
        }
        .to_handle();
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
