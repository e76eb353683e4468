//! The collector of spans in a build without the cargo feature `full`: none.

use std::path::Path;

use loadgen::TraceLog;

/// There is no such value.
pub enum Collector {}

impl Collector {
    /// Returns no collector.
    ///
    /// # Errors
    /// Always: the executable was built without the cargo feature `full`.
    pub async fn start(_: &Path, _: &'static str) -> anyhow::Result<Collector> {
        anyhow::bail!(shared::config::WITHOUT_FULL)
    }

    pub fn endpoint(&self) -> String {
        match *self {}
    }

    pub fn log(&self) -> TraceLog {
        match *self {}
    }

    pub fn end_burst(&self) {
        match *self {}
    }
}
