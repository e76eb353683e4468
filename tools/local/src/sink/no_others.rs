//! The stand-ins of a build with the cargo feature `full`, in one without it: none.

use std::net::TcpListener;
use std::path::PathBuf;

use super::place::{Place, SinkKind};

pub(crate) struct OtherSinks;

impl OtherSinks {
    pub(super) async fn start(
        _: SinkKind,
        _: &Place<'_>,
        _: TcpListener,
    ) -> anyhow::Result<OtherSinks> {
        Ok(OtherSinks)
    }

    pub(super) fn out(&self, _: SinkKind, _: &Place<'_>) -> Option<PathBuf> {
        None
    }

    pub(crate) fn s3_endpoint(&self) -> Option<String> {
        None
    }

    pub(crate) fn create_bucket(&self, _: &str) {}

    pub(super) fn variables(&self) -> Option<Vec<(&'static str, String)>> {
        None
    }

    pub(crate) async fn export_parts(&self) -> anyhow::Result<()> {
        Ok(())
    }
}
