//! Names under which a sink keeps parts.

/// A name under which the sink keeps a part.
#[derive(Clone, Debug, Default)]
pub struct Name {
    /// Hash of its data, while they are there.
    pub data: Option<String>,
    /// What its manifest says of them, once there is one.
    pub manifest: Option<String>,
    /// How often a consumer took the data.
    pub taken: u32,
}
