//! The items of a record as a tree, by their levels.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::vec::IntoIter;

use crate::error::Problem;
use crate::field::{Field, Sign, Usage};
use crate::item::{Item, Said};
use crate::names::{NAMELESS, plain};

/// An item of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) line: usize,
    /// The name as it is written; `None` for `FILLER`.
    pub(crate) name: Option<String>,
    /// How often the item occurs; `None` if it is not a table.
    pub(crate) occurs: Option<usize>,
    pub(crate) content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Items below this one; there is at least one.
    Group(Vec<Node>),
    Field(Field),
}

impl Node {
    /// Returns the name as it is written.
    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(NAMELESS)
    }
}

/// What groups say for the items below them.
#[derive(Clone, Copy)]
struct Inherited {
    usage: Usage,
    sign: Sign,
}

/// Returns the record that items are, without those that are refused; `None` if nothing is left.
pub(crate) fn grow(items: Vec<Item>, problems: &mut Vec<Problem>) -> Option<Node> {
    let Some(first) = items.first() else {
        // Nothing is missing where something is refused that may have been the record.
        if problems.is_empty() {
            problems.push(Problem {
                line: 1,
                item: None,
                value: None,
                reason: "no record, expected an item of level 01".to_owned(),
            });
        }
        return None;
    };
    if first.level != 1 {
        problems.push(of_level(first, "expected level 01 first"));
    }
    let root = match first.level {
        1 => None,
        // Stands for the record that is missing, so that the items are checked nevertheless.
        _ => Some(Item {
            line: first.line,
            is_refused: true,
            ..Item::default()
        }),
    };
    let mut grower = Grower {
        items: items.into_iter().peekable(),
        problems,
    };
    let root = root.or_else(|| grower.items.next())?;
    let record = grower.node(
        root,
        Inherited {
            usage: Usage::Display,
            sign: Sign::Trailing,
        },
    );
    if let Some(second) = grower.items.next() {
        let problem = of_level(&second, "a second record, expected one for each copybook");
        grower.problems.push(problem);
    }
    record
}

fn of_level(item: &Item, reason: &str) -> Problem {
    Problem::of_item(item.line, item.name(), &item.level_text, reason)
}

struct Grower<'p> {
    items: Peekable<IntoIter<Item>>,
    problems: &'p mut Vec<Problem>,
}

impl Grower<'_> {
    /// Takes the items below one, and returns it with them. Levels are at most 49, and so is the depth of this function.
    fn node(&mut self, item: Item, inherited: Inherited) -> Option<Node> {
        let below = Inherited {
            usage: item
                .usage
                .as_ref()
                .map_or(inherited.usage, |said| said.value),
            sign: item.sign.as_ref().map_or(inherited.sign, |said| said.value),
        };
        let is_group = self
            .items
            .peek()
            .is_some_and(|next| next.level > item.level);
        let content = match is_group {
            true => self.group(&item, below).map(Content::Group),
            false => self.field(&item, below).map(Content::Field),
        };
        let content = content.filter(|_| !item.is_elsewhere)?;
        Some(Node {
            line: item.line,
            name: item.name,
            occurs: item.occurs.map(|said| said.value),
            content,
        })
    }

    fn group(&mut self, item: &Item, below: Inherited) -> Option<Vec<Node>> {
        if let Some(picture) = &item.picture {
            self.refuse(
                item,
                picture,
                "a group has no picture, expected it on the items below",
            );
        }
        if let Some(justified) = &item.justified {
            self.refuse(
                item,
                justified,
                "a group is not aligned, expected it on the items below",
            );
        }
        let mut level = None;
        let mut nodes = Vec::new();
        while let Some(next) = self.items.next_if(|next| next.level > item.level) {
            let expected = *level.get_or_insert(next.level);
            if next.level != expected {
                let reason = format!(
                    "out of order, expected {expected:02} or a level of the groups around it"
                );
                self.problems.push(of_level(&next, &reason));
            }
            nodes.extend(self.node(next, below));
        }
        self.check_names(item, &nodes);
        (!nodes.is_empty()).then_some(nodes)
    }

    fn field(&mut self, item: &Item, inherited: Inherited) -> Option<Field> {
        let Some(picture) = &item.picture else {
            if !item.is_refused {
                self.problems.push(Problem {
                    line: item.line,
                    item: Some(item.name().to_owned()),
                    value: None,
                    reason: "no picture, expected `PIC` or items below it".to_owned(),
                });
            }
            return None;
        };
        let field = Field::new(picture.value, inherited.usage, inherited.sign);
        let mut field = match field {
            Ok(field) => field,
            Err(reason) => {
                self.refuse(item, picture, &reason);
                return None;
            }
        };
        if let Some(sign) = &item.sign
            && (inherited.usage != Usage::Display || !picture.value.is_signed())
        {
            self.refuse(
                item,
                sign,
                "no sign to place, expected `S` in a picture with `USAGE DISPLAY`",
            );
        }
        if let Some(justified) = &item.justified {
            if field.kind.is_some() {
                self.refuse(
                    item,
                    justified,
                    "a number is not aligned, expected a picture of `X`",
                );
            }
            field.is_right = true;
        }
        Some(field)
    }

    /// Refuses names that a JSON object could not have: two of the same, and one that only a group without a name tells apart.
    fn check_names(&mut self, group: &Item, nodes: &[Node]) {
        // Names of a group without a name are checked with those around it.
        if group.name.is_none() && group.level != 1 {
            if group.occurs.is_some() && !named(nodes).is_empty() {
                self.problems.push(Problem {
                    line: group.line,
                    item: Some(group.name().to_owned()),
                    value: Some("OCCURS".to_owned()),
                    reason: "no name to count, expected one on a group whose items have names"
                        .to_owned(),
                });
            }
            return;
        }
        let mut names = BTreeSet::new();
        for node in named(nodes) {
            if !names.insert(plain(node.name())) {
                self.problems.push(Problem::of_item(
                    node.line,
                    node.name(),
                    node.name(),
                    "again in the same group, expected another name",
                ));
            }
        }
    }

    fn refuse<T>(&mut self, item: &Item, said: &Said<T>, reason: &str) {
        let problem = Problem::of_item(said.line, item.name(), &said.text, reason);
        self.problems.push(problem);
    }
}

/// Returns the items with names that become members of the same JSON object.
fn named(nodes: &[Node]) -> Vec<&Node> {
    let mut all = Vec::new();
    for node in nodes {
        match (&node.name, &node.content) {
            (Some(_), _) => all.push(node),
            (None, Content::Group(nodes)) => all.extend(named(nodes)),
            (None, Content::Field(_)) => {}
        }
    }
    all
}
