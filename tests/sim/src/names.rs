//! Names under which a sink keeps parts.

/// A name under which the sink keeps a part.
#[derive(Clone, Debug, Default)]
pub struct Name {
    /// Hash of the data; absent before they are written and after a consumer took them.
    pub data: Option<String>,
    /// Hash of the data in the manifest, once it is written.
    pub manifest: Option<String>,
    /// How often a consumer took the data.
    pub taken: u32,
}
