//! The trait of every sink, and what a sink answers.

use std::time::Duration;

use async_trait::async_trait;

use crate::part::Part;

/// What a sink answers for a part it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Its words, kept in the batch record.
    pub text: String,
    /// How many of the part's records it has only in the reject list.
    pub rejected: u64,
}

impl Receipt {
    /// For a part of which nothing was rejected.
    pub fn new(text: impl Into<String>) -> Receipt {
        Receipt {
            text: text.into(),
            rejected: 0,
        }
    }
}

/// Why a sink does not have a part.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// Not now, or not known: the same part is delivered again, with the same key.
    #[error("sink failed for now: {reason}")]
    Retryable {
        /// Why.
        reason: String,
    },
    /// Not now, and the sink said for how long: as [`Retryable`](Self::Retryable), but not before that.
    #[error("sink is busy for `{}` s: {reason}", retry_after.as_secs())]
    Busy {
        /// Why.
        reason: String,
        /// The earliest time for another attempt, from now.
        retry_after: Duration,
    },
    /// Never: the batch waits for an operator.
    #[error("sink refused for good: {reason}")]
    Permanent {
        /// Why.
        reason: String,
    },
}

/// Where parts are delivered.
///
/// `deliver` may be called again with the same part, after an error, after a crash, or by another process at the same
/// time; same key means same content. `Ok` means the part is safely there and stays there.
///
/// # Examples
///
/// A sink that writes each part to a file under its key. Another attempt writes the same file again, so no part is
/// there twice:
///
/// ```
/// use std::path::PathBuf;
/// use std::{fs, io};
///
/// use sinks::{Part, Receipt, Sink, SinkError, async_trait};
///
/// struct Directory(PathBuf);
///
/// impl Directory {
///     fn write(&self, part: &Part) -> io::Result<()> {
///         let name = part.key().replace('/', ".");
///         let bodies: String = part.items.iter().map(|item| format!("{}\n", item.body)).collect();
///         // A reader must never see half of a part: the file gets its name when it is whole.
///         let unfinished = self.0.join(format!("{name}.unfinished.{}", std::process::id()));
///         fs::write(&unfinished, bodies)?;
///         fs::rename(&unfinished, self.0.join(name))
///     }
/// }
///
/// #[async_trait]
/// impl Sink for Directory {
///     fn fingerprint(&self) -> String {
///         format!("bodies in {}", self.0.display())
///     }
///
///     async fn deliver(&self, part: &Part) -> Result<Receipt, SinkError> {
///         match self.write(part) {
///             Ok(()) => Ok(Receipt::new(format!("{} records", part.items.len()))),
///             // A full disk may be mended: the part comes again, and then succeeds.
///             Err(error) => Err(SinkError::Retryable { reason: error.to_string() }),
///         }
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let sink = Directory(directory.path().to_owned());
/// # let part = Part {
/// #     batch_id: "0190163d-8694-739b-aea5-966c26f8ad91".parse()?,
/// #     number: 0,
/// #     source: "arn:aws:sqs:eu-west-1:123456789012:orders".parse()?,
/// #     batch_key: None,
/// #     items: Vec::new(),
/// # };
/// # for _ in 0..2 {
/// #     assert_eq!(sink.deliver(&part).await?, Receipt::new("0 records"));
/// # }
/// # assert_eq!(fs::read_dir(directory.path())?.count(), 1);
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait Sink: Send + Sync + 'static {
    /// Returns where parts go and what they look like there, in words, without secrets; at most
    /// [`FINGERPRINT_BYTES_MAX`](protocol::limits::FINGERPRINT_BYTES_MAX) of it are kept.
    ///
    /// It is stored with every part before the part is delivered. While a part is undelivered and this differs from what
    /// was stored, the part is not delivered: an operator decides. A sink whose destination or content can be changed by
    /// configuration must say so here; one that cannot keeps the default.
    fn fingerprint(&self) -> String {
        "a sink of its own".to_owned()
    }

    /// Delivers a part.
    async fn deliver(&self, part: &Part) -> Result<Receipt, SinkError>;
}

/// The error of a part or a list that could not be written to memory.
#[cfg(any(feature = "http", feature = "s3"))]
pub(crate) fn unwritten(error: std::io::Error) -> SinkError {
    SinkError::Retryable {
        reason: error.to_string(),
    }
}
