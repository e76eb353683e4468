//! The columns of a record: every field, as often as it occurs, with a name of its own.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::error::Problem;
use crate::field::Field;
use crate::limits::{COLUMNS_MAX, RECORD_BYTES_MAX};
use crate::names::{identifier, plain};
use crate::tree::{Content, Node};

/// A record as a copybook describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The name of the item of level 01, in small letters with `_` for `-`.
    pub name: String,
    /// The columns in the order of their bytes.
    pub columns: Vec<Column>,
    /// The number of bytes.
    pub length: usize,
}

/// One column of a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Column {
    /// The name, which no other column has.
    pub name: String,
    /// The expression (JMESPath) that finds the value in a JSON object with the names of the copybook.
    pub json: String,
    /// The type of a number, such as `packed-decimal(7,2)`; [`None`] for text.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// How the sign of a number is written, such as `leading-separate` or `unsigned`; [`None`] for text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sign: Option<&'static str>,
    /// The number of bytes of text; [`None`] for a number, whose type says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<usize>,
    /// `right` for text that is justified; [`None`] for any other column.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub align: Option<&'static str>,
}

/// Returns the columns of a record, unless it has too many of them or of their bytes.
pub(crate) fn record(root: &Node, problems: &mut Vec<Problem>) -> Option<Record> {
    let count = total(root, &|_| 1);
    let length = total(root, &|field| field.bytes);
    let before = problems.len();
    for (value, max, of) in [
        (count, COLUMNS_MAX, "columns"),
        (length, RECORD_BYTES_MAX, "bytes"),
    ] {
        if value > max {
            let reason = format!("too many {of}, expected at most {max}");
            let value = value.to_string();
            problems.push(Problem::of_item(root.line, root.name(), value, reason));
        }
    }
    if problems.len() > before {
        return None;
    }
    let mut places = Vec::with_capacity(count);
    match &root.content {
        Content::Group(nodes) => {
            for node in nodes {
                Path::default().expand(node, &mut places);
            }
        }
        Content::Field(_) => Path::default().expand(root, &mut places),
    }
    let names = names(&places, problems);
    let columns = places.into_iter().zip(names);
    Some(Record {
        name: plain(root.name()),
        columns: columns.map(|(place, name)| place.column(name)).collect(),
        length,
    })
}

/// Returns the sum of a number over all fields. One too large is the largest that there is.
fn total(node: &Node, of_field: &impl Fn(&Field) -> usize) -> usize {
    let once = match &node.content {
        Content::Field(field) => of_field(field),
        Content::Group(nodes) => nodes
            .iter()
            .map(|node| total(node, of_field))
            .fold(0, usize::saturating_add),
    };
    once.saturating_mul(node.occurs.unwrap_or(1))
}

/// The way from the record to an item.
#[derive(Clone, Default)]
struct Path {
    /// The names of the tables on the way, with their numbers.
    short: String,
    /// The names of all groups on the way.
    full: String,
    json: String,
}

/// A field where it occurs.
struct Place<'t> {
    path: Path,
    node: &'t Node,
    field: &'t Field,
}

impl Path {
    fn expand<'t>(&self, node: &'t Node, places: &mut Vec<Place<'t>>) {
        let times = node.occurs.unwrap_or(1);
        for index in 0..times {
            let path = self.to(node, node.occurs.map(|_| index));
            match &node.content {
                Content::Group(nodes) => {
                    for node in nodes {
                        path.expand(node, places);
                    }
                }
                Content::Field(field) => places.push(Place { path, node, field }),
            }
        }
    }

    /// Returns the way to an item of this one; the index is that in a table.
    fn to(&self, node: &Node, index: Option<usize>) -> Path {
        let Some(name) = &node.name else {
            return self.clone();
        };
        let name = plain(name);
        let (number, subscript) = match index {
            Some(index) => (format!("_{}", index + 1), format!("[{index}]")),
            None => (String::new(), String::new()),
        };
        let counted = format!("{name}{number}");
        let is_in_short = index.is_some() || matches!(node.content, Content::Field(_));
        let member = format!("{}{subscript}", identifier(&name));
        Path {
            short: match is_in_short {
                true => joined(&self.short, "_", &counted),
                false => self.short.clone(),
            },
            full: joined(&self.full, "_", &counted),
            json: joined(&self.json, ".", &member),
        }
    }
}

fn joined(before: &str, between: &str, name: &str) -> String {
    match before {
        "" => name.to_owned(),
        before => format!("{before}{between}{name}"),
    }
}

/// Returns the name of every place: the short one if that is enough, and otherwise the full one.
fn names(places: &[Place<'_>], problems: &mut Vec<Problem>) -> Vec<String> {
    let named = || places.iter().filter(|place| place.node.name.is_some());
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for place in named() {
        *counts.entry(&place.path.short).or_default() += 1;
    }
    let name = |place: &Place<'_>| match counts.get(place.path.short.as_str()) {
        Some(1) => place.path.short.clone(),
        _ => place.path.full.clone(),
    };
    let mut taken: BTreeMap<String, &str> = BTreeMap::new();
    let mut refused = BTreeSet::new();
    for place in named() {
        let name = name(place);
        // Items in the same place of the JSON object were refused before.
        let is_repeated = taken
            .get(&name)
            .is_some_and(|json| *json != place.path.json);
        // Once for an item, however often it occurs.
        if is_repeated && refused.insert((place.node.line, place.node.name())) {
            problems.push(Problem::of_item(
                place.node.line,
                place.node.name(),
                &name,
                "the name of two columns, expected another name",
            ));
        }
        taken.insert(name, &place.path.json);
    }
    let fillers = (1..).map(|number| format!("filler_{number}"));
    let mut fillers = fillers.filter(|name| !taken.contains_key(name));
    let names = places.iter().map(|place| match place.node.name {
        Some(_) => name(place),
        None => fillers.next().unwrap_or_default(),
    });
    names.collect()
}

impl Place<'_> {
    fn column(self, name: String) -> Column {
        let Field {
            kind,
            sign,
            bytes,
            is_right,
        } = self.field.clone();
        let json = match (&self.node.name, &kind) {
            (Some(_), _) => self.path.json,
            (None, None) => "''".to_owned(),
            (None, Some(_)) => "`0`".to_owned(),
        };
        Column {
            name,
            json,
            sign,
            width: kind.is_none().then_some(bytes),
            align: is_right.then_some("right"),
            kind,
        }
    }
}
