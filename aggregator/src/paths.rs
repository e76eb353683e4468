//! Plain expressions, `id` or `[customer, order.day]`, in one pass over the body: what they name is picked out, the
//! rest is skipped, and no tree is made.
//!
//! They find what the general way in [`crate::event_id`] finds, or nothing: then the general way says why. So whatever
//! is refused is refused in the same words. There is one difference: what is skipped is not read. A body with a number
//! out of range, half a surrogate pair, or deep nesting has an id all the same if it is none of these that is the id;
//! the general way cannot read such a body at all. To claim what can be named is the better of the two.

use std::borrow::Cow;
use std::fmt;

use jmespath::ast::Ast;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::event_id::{Expression, join};

/// Values that are picked out of a body at most; expressions that name more go the general way.
const PLACES_MAX: usize = 8;

/// A field by the names that lead to it.
type Path = Vec<String>;

/// What a plain expression names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plain {
    /// One field.
    Field(Path),
    /// A list of fields.
    List(Vec<Path>),
}

impl Plain {
    /// The fields that an expression names, if it does nothing else.
    pub fn of(ast: &Ast) -> Option<Plain> {
        match ast {
            Ast::MultiList { elements, .. } => {
                let paths: Option<Vec<Path>> = elements.iter().map(path).collect();
                paths.map(Plain::List)
            }
            ast => path(ast).map(Plain::Field),
        }
    }
}

fn path(ast: &Ast) -> Option<Path> {
    match ast {
        Ast::Field { name, .. } => Some(vec![name.clone()]),
        Ast::Subexpr { lhs, rhs, .. } => {
            let mut path = path(lhs)?;
            path.extend(self::path(rhs)?);
            Some(path)
        }
        _ => None,
    }
}

/// Where the values of one expression are among those that were found.
#[derive(Debug)]
enum Places {
    One(usize),
    List(Vec<usize>),
}

/// The fields of some plain expressions, as the tree in which a body is searched.
#[derive(Debug, Default)]
pub struct Paths<'e> {
    root: Node<'e>,
    places_count: usize,
    expressions: Vec<(&'e Expression, Places)>,
}

#[derive(Debug, Default)]
struct Node<'e> {
    place: Option<usize>,
    fields: Vec<(&'e str, Node<'e>)>,
}

impl<'e> Paths<'e> {
    /// What the expressions name; nothing if one of them is not plain, or they name too much.
    pub fn of(expressions: impl IntoIterator<Item = &'e Expression>) -> Option<Paths<'e>> {
        let mut paths = Paths::default();
        for expression in expressions {
            let places = match expression.plain()? {
                Plain::Field(path) => Places::One(paths.place(path)),
                Plain::List(list) => {
                    Places::List(list.iter().map(|path| paths.place(path)).collect())
                }
            };
            paths.expressions.push((expression, places));
        }
        (paths.places_count <= PLACES_MAX).then_some(paths)
    }

    fn place(&mut self, path: &'e Path) -> usize {
        let mut node = &mut self.root;
        for name in path {
            let known = node.fields.iter().position(|(field, _)| field == name);
            let index = known.unwrap_or_else(|| {
                node.fields.push((name, Node::default()));
                node.fields.len() - 1
            });
            node = &mut node.fields[index].1;
        }
        *node.place.get_or_insert_with(|| {
            self.places_count += 1;
            self.places_count - 1
        })
    }

    /// Looks through a body; nothing if it cannot be read.
    pub fn search<'b>(&self, body: &'b str) -> Option<Found<'b>> {
        let mut found = Found::default();
        let mut json = serde_json::Deserializer::from_str(body);
        let look = Look {
            node: &self.root,
            found: &mut found,
        };
        look.deserialize(&mut json).ok()?;
        json.end().ok()?;
        Some(found)
    }

    /// The text of an expression, one of those these are the paths of, if it has one.
    pub fn text<'f>(&self, expression: &Expression, found: &'f Found<'_>) -> Option<Cow<'f, str>> {
        let mut expressions = self.expressions.iter();
        let (_, places) = expressions.find(|(one, _)| std::ptr::eq(*one, expression))?;
        match places {
            Places::One(place) => found.text(*place).filter(|text| !text.is_empty()),
            Places::List(places) => {
                let texts: Option<Vec<_>> = places.iter().map(|place| found.text(*place)).collect();
                Some(Cow::Owned(join(&texts?)))
            }
        }
    }
}

/// What was found in a body.
#[derive(Debug, Default)]
pub struct Found<'b>([Option<Scalar<'b>>; PLACES_MAX]);

/// A value that has a text.
#[derive(Debug)]
enum Scalar<'b> {
    Text(Cow<'b, str>),
    Flag(bool),
    Whole(u64),
    Negative(i64),
}

impl Found<'_> {
    fn text(&self, place: usize) -> Option<Cow<'_, str>> {
        Some(match self.0[place].as_ref()? {
            Scalar::Text(text) => Cow::Borrowed(text),
            Scalar::Flag(flag) => Cow::Owned(flag.to_string()),
            Scalar::Whole(number) => Cow::Owned(number.to_string()),
            Scalar::Negative(number) => Cow::Owned(number.to_string()),
        })
    }
}

/// Looks at one value.
struct Look<'n, 'f, 'b> {
    node: &'n Node<'n>,
    found: &'f mut Found<'b>,
}

impl<'b> Look<'_, '_, 'b> {
    fn end<E>(self, scalar: Option<Scalar<'b>>) -> Result<(), E> {
        // Of fields with the same name the last one counts, whole: an earlier one may have been an object.
        self.node.forget(self.found);
        if let Some(place) = self.node.place {
            self.found.0[place] = scalar;
        }
        Ok(())
    }
}

impl Node<'_> {
    fn forget(&self, found: &mut Found<'_>) {
        if let Some(place) = self.place {
            found.0[place] = None;
        }
        for (_, node) in &self.fields {
            node.forget(found);
        }
    }
}

impl<'b> DeserializeSeed<'b> for Look<'_, '_, 'b> {
    type Value = ();

    fn deserialize<D: Deserializer<'b>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'b> Visitor<'b> for Look<'_, '_, 'b> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.end(None)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<(), E> {
        self.end(Some(Scalar::Flag(flag)))
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.end(Some(Scalar::Whole(number)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.end(Some(Scalar::Negative(number)))
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        self.end(None)
    }

    fn visit_borrowed_str<E>(self, text: &'b str) -> Result<(), E> {
        self.end(Some(Scalar::Text(Cow::Borrowed(text))))
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.end(Some(Scalar::Text(Cow::Owned(text.to_owned()))))
    }

    fn visit_seq<A: SeqAccess<'b>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        self.end(None)
    }

    fn visit_map<A: MapAccess<'b>>(self, mut map: A) -> Result<(), A::Error> {
        let Look { node, found } = self;
        node.forget(found);
        while let Some(field) = map.next_key_seed(Name(&node.fields))? {
            match field {
                Some(node) => map.next_value_seed(Look { node, found })?,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// Looks at the name of one field.
struct Name<'n>(&'n [(&'n str, Node<'n>)]);

impl<'b, 'n> DeserializeSeed<'b> for Name<'n> {
    type Value = Option<&'n Node<'n>>;

    fn deserialize<D: Deserializer<'b>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'n> Visitor<'_> for Name<'n> {
    type Value = Option<&'n Node<'n>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        let field = self.0.iter().find(|(field, _)| *field == name);
        Ok(field.map(|(_, node)| node))
    }
}

#[cfg(test)]
#[path = "paths_tests.rs"]
mod tests;
