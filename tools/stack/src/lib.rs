//! Finds a running stack for programs that work with it from outside, `loadgen burst` and `batchctl`, and watches a burst in it.
//!
//! [`Settings`] say where queues and tables are, and how the functions are configured. They are read from the outputs and
//! parameters of a CloudFormation stack, from a file of variables as `batch-local serve` prints it, or from the variables of this
//! process. [`Connection`] has the clients. [`StackArgs`] are the arguments by which a command names its stack. [`queues`] counts the
//! messages of a queue, and `watch` (feature `watch`) looks at queues and batch records until a burst is delivered.

mod arguments;
mod connection;
mod error;
#[cfg(not(feature = "cloudformation"))]
mod no_outputs;
mod open_error;
#[cfg(feature = "cloudformation")]
mod outputs;
mod paced;
pub mod queues;
mod settings;
mod variables;
#[cfg(feature = "watch")]
pub mod watch;

pub use arguments::StackArgs;
pub use connection::{Connection, ConnectionError, Lookup, http_client};
pub use error::WatchError;
pub use open_error::OpenError;
pub use paced::Pace;
pub use settings::{Problems, Settings, SettingsError};
