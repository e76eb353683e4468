//! The declarations of a sink's module, and the input from which it makes the sink.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws::Sdk;
use shared::config::{Declared, Reader};

use crate::answers::{AnswerPlace, AnswersConfig};
#[cfg(feature = "full")]
use crate::place::BucketPlace;
use crate::place::FilePlace;
use crate::secret::{Secret, SecretConfig};
use crate::sink::Sink;
use forms::Columns;
use forms::Rendering;

/// A kind of destination that `SINK` can name.
pub(crate) struct Kind {
    /// The name in errors: `https:`.
    pub(crate) name: &'static str,
    /// Returns whether a URI is of this kind, right or wrong.
    pub(crate) is_named: fn(&str) -> bool,
    /// Returns a URI in the spelling that fingerprints have; an error says what is expected.
    pub(crate) check: fn(&str) -> Result<String, String>,
    /// The settings that it reads, and that some other kinds do not read.
    pub(crate) reads: &'static [&'static dyn Declared],
    /// The longest payload of a call, if a part that is longer needs `SINK_PAYLOADS`.
    pub(crate) call_bytes_max: Option<usize>,
    /// Whether it writes rows: `SINK_COLUMNS` says what is in them.
    pub(crate) writes_rows: bool,
    /// Where the reject lists of its parts are.
    pub(crate) reject_lists: RejectLists,
    /// Reads the settings that are its own; `uri` is that of the sink if it is of this kind, and otherwise [`None`].
    pub(crate) read: fn(&mut Reader<'_>, uri: Option<&str>) -> Option<Make>,
}

/// Where the reject lists of a kind of destination are.
pub(crate) enum RejectLists {
    /// In files or objects beside the parts.
    BesideParts,
    /// Where `SINK_REJECTS` says.
    Store,
    /// Where only an operator can fetch them; says how.
    Fetched(&'static str),
}

impl Kind {
    /// Returns whether the destination reads a setting that not every kind does.
    pub(crate) fn reads(&self, name: &str) -> bool {
        let mut reads = self.reads.iter();
        reads.any(|setting| setting.description().name == name)
    }
}

/// Makes a sink.
type MakeSink = dyn Fn(&SinkConfig, &Sdk) -> Result<Box<dyn Sink>, String> + Send + Sync;
/// Makes the place of answers in a directory on the server of a sink.
type MakeAnswers =
    dyn Fn(&SinkConfig, &Sdk, &str) -> Result<Box<dyn AnswerPlace>, String> + Send + Sync;

/// Makes a sink of one kind.
#[derive(Clone)]
pub(crate) struct Make {
    sink: Arc<MakeSink>,
    /// [`None`] if the sink has no server with directories.
    pub(crate) answers: Option<Arc<MakeAnswers>>,
}

impl Make {
    pub(crate) fn new<S: Sink + 'static>(
        make: impl Fn(&SinkConfig, &Sdk) -> Result<S, String> + Send + Sync + 'static,
    ) -> Make {
        Make {
            sink: Arc::new(move |config, sdk| Ok(Box::new(make(config, sdk)?) as Box<dyn Sink>)),
            answers: None,
        }
    }

    #[cfg(feature = "full")]
    pub(crate) fn with_answers<P: AnswerPlace + 'static>(
        self,
        make: impl Fn(&SinkConfig, &Sdk, &str) -> Result<P, String> + Send + Sync + 'static,
    ) -> Make {
        Make {
            answers: Some(Arc::new(move |config, sdk, path| {
                Ok(Box::new(make(config, sdk, path)?) as Box<dyn AnswerPlace>)
            })),
            ..self
        }
    }

    pub(crate) fn sink(&self, config: &SinkConfig, sdk: &Sdk) -> Result<Box<dyn Sink>, String> {
        (self.sink)(config, sdk)
    }
}

impl fmt::Debug for Make {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Make")
    }
}

/// The configuration of the built-in sinks.
#[derive(Clone, Debug)]
pub struct SinkConfig {
    /// The format and the compression of parts.
    pub rendering: Rendering,
    /// A readable text for the destination and the rendering, with a hash of everything they depend on: see
    /// [`Sink::fingerprint`].
    pub fingerprint: String,
    /// The time limit of one attempt, for endpoints, functions, databases and servers.
    pub timeout: Duration,
    /// Where reject lists go if the sink has no files or objects to put them beside.
    pub rejects: Option<FilePlace>,
    /// Whether parts have links: `PROOF`.
    pub proof: bool,
    /// Where parts go that are too large or compressed for a call.
    #[cfg(feature = "full")]
    pub payloads: Option<BucketPlace>,
    /// How large parts may be so that most fit a call; [`None`] if any fits.
    pub part_bytes_max: Option<u64>,
    /// Where the secret for an endpoint, a database or a server is kept.
    pub secret: Option<SecretConfig>,
    /// The password or private key of the user of a database or a server, if it is not kept as a secret.
    pub password: Option<Secret>,
    /// The columns of rows, if the sink writes rows.
    pub(crate) columns: Option<Columns>,
    /// Where the consumer answers, if it does.
    pub answers: Option<AnswersConfig>,
    /// Whether the sink writes rows, and no content in the rendering.
    pub writes_rows: bool,
    pub(crate) make: Make,
}
