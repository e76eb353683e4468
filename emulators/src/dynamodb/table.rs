//! How a table is defined, in the words of `CreateTable`, which are those of CloudFormation.
//! Source: <https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_CreateTable.html> (2026-11).

use serde::Deserialize;

/// A table.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Table {
    /// Every attribute of a key.
    pub attribute_definitions: Vec<Attribute>,
    /// The table's key.
    pub key_schema: Vec<Key>,
    /// Its indexes.
    #[serde(default)]
    pub global_secondary_indexes: Vec<Index>,
    /// `PAY_PER_REQUEST`, or what it is provisioned with.
    pub billing_mode: String,
}

/// An attribute of a key.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Attribute {
    /// Its name.
    pub attribute_name: String,
    /// `S`, `N` or `B`.
    pub attribute_type: String,
}

/// One part of a key.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Key {
    /// Name of the attribute.
    pub attribute_name: String,
    /// `HASH` or `RANGE`.
    pub key_type: String,
}

/// An index.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Index {
    /// Its name.
    pub index_name: String,
    /// Its key.
    pub key_schema: Vec<Key>,
    /// What it holds besides keys.
    pub projection: Projection,
}

/// What an index holds besides keys.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Projection {
    /// `KEYS_ONLY`, `INCLUDE` or `ALL`.
    pub projection_type: String,
    /// With `INCLUDE`, what else.
    #[serde(default)]
    pub non_key_attributes: Vec<String>,
}
