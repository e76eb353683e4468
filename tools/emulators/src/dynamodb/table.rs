//! The definition of a table, with the field names of `CreateTable`, which CloudFormation uses too.
//! Source: <https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_CreateTable.html> (2026-11).

use serde::{Deserialize, Serialize};

/// The definition of a table. Deserializes from the JSON of a `CreateTable` request.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Table {
    /// Types of the attributes that are part of a key, of the table or of an index.
    pub attribute_definitions: Vec<Attribute>,
    /// Partition key of the table, and its sort key if it has one.
    pub key_schema: Vec<Key>,
    /// Global secondary indexes.
    #[serde(default)]
    pub global_secondary_indexes: Vec<Index>,
    /// `PAY_PER_REQUEST` or `PROVISIONED`.
    pub billing_mode: String,
}

/// Name and type of an attribute that is part of a key.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Attribute {
    /// Name of the attribute.
    pub attribute_name: String,
    /// `S` (string), `N` (number) or `B` (binary).
    pub attribute_type: String,
}

/// One attribute of a key.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Key {
    /// Name of the attribute.
    pub attribute_name: String,
    /// `HASH` for a partition key, `RANGE` for a sort key.
    pub key_type: String,
}

/// The definition of a global secondary index.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Index {
    /// Name of the index.
    pub index_name: String,
    /// Partition key of the index, and its sort key if it has one.
    pub key_schema: Vec<Key>,
    /// Attributes that the index holds besides keys.
    pub projection: Projection,
}

/// The attributes that an index holds besides the keys of the index and of the table.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Projection {
    /// `KEYS_ONLY`, `INCLUDE` or `ALL`.
    pub projection_type: String,
    /// With `INCLUDE`, the names of the attributes.
    #[serde(default)]
    pub non_key_attributes: Vec<String>,
}
