//! What makes an event the same event: `EVENT_ID` and `BATCH_KEY`.

use std::fmt;
use std::str::FromStr;

use jmespath::ast::Ast;
use jmespath::{Context, DEFAULT_RUNTIME, Rcvar, Variable};

use crate::paths::Plain;

/// Largest step of a slice: no list in a body of 1 MB is longer. The library adds the step to a position in 32 bits,
/// which must not overflow.
const SLICE_STEP_MAX: i32 = 1 << 20;

/// What an expression found that cannot be an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// Nothing there.
    #[error("`{expression}` finds nothing")]
    Nothing {
        /// The expression.
        expression: String,
    },
    /// Something that has no one text.
    #[error(
        "`{expression}` finds {found}, expected a string, a whole number, a boolean, or a list of these"
    )]
    NoText {
        /// The expression.
        expression: String,
        /// What was found.
        found: String,
    },
    /// The expression itself failed on this body.
    #[error("`{expression}` cannot be evaluated: {message}")]
    Evaluation {
        /// The expression.
        expression: String,
        /// Why.
        message: String,
    },
}

/// A JMESPath expression whose result is one text.
#[derive(Clone)]
pub struct Expression {
    compiled: jmespath::Expression<'static>,
    plain: Option<Plain>,
}

impl Expression {
    /// The text the expression finds in a JSON body. A list joins to one text, by `|`; a `|` or `\` inside a member
    /// is escaped, so that different lists never join to the same text.
    ///
    /// # Errors
    /// [`ExpressionError`]; the same body fails every time.
    pub fn text(&self, body: &Rcvar) -> Result<String, ExpressionError> {
        let expression = || self.compiled.as_str().to_owned();
        // Not by `search`, which serialises the body into another one first.
        let mut context = Context::new(self.compiled.as_str(), &DEFAULT_RUNTIME);
        let found =
            jmespath::interpret(body, self.compiled.as_ast(), &mut context).map_err(|error| {
                ExpressionError::Evaluation {
                    expression: expression(),
                    message: error.reason.to_string(),
                }
            })?;
        let no_text = |value: &Variable| ExpressionError::NoText {
            expression: expression(),
            found: describe(value),
        };
        match found.as_ref() {
            Variable::Null => Err(ExpressionError::Nothing {
                expression: expression(),
            }),
            Variable::Array(members) if members.is_empty() => Err(ExpressionError::Nothing {
                expression: expression(),
            }),
            Variable::Array(members) => {
                let texts: Result<Vec<String>, _> = members
                    .iter()
                    .map(|member| scalar(member).ok_or_else(|| no_text(member)))
                    .collect();
                Ok(join(&texts?))
            }
            value => match scalar(value) {
                Some(text) if text.is_empty() => Err(ExpressionError::Nothing {
                    expression: expression(),
                }),
                Some(text) => Ok(text),
                None => Err(no_text(value)),
            },
        }
    }

    /// The fields it names, if it does nothing else.
    pub(crate) fn plain(&self) -> Option<&Plain> {
        self.plain.as_ref()
    }
}

/// The one text of a list.
pub(crate) fn join<T: AsRef<str>>(members: &[T]) -> String {
    let mut joined = String::new();
    for (index, member) in members.iter().enumerate() {
        if index > 0 {
            joined.push('|');
        }
        for letter in member.as_ref().chars() {
            if matches!(letter, '\\' | '|') {
                joined.push('\\');
            }
            joined.push(letter);
        }
    }
    joined
}

/// The one text of a scalar. Numbers that are not whole, or do not fit 64 bits, have none: they would be read as
/// floating point, where two different ids can become one.
fn scalar(value: &Variable) -> Option<String> {
    match value {
        Variable::String(text) => Some(text.clone()),
        Variable::Bool(flag) => Some(flag.to_string()),
        Variable::Number(number) if number.is_i64() || number.is_u64() => Some(number.to_string()),
        Variable::Number(_)
        | Variable::Null
        | Variable::Array(_)
        | Variable::Object(_)
        | Variable::Expref(_) => None,
    }
}

fn describe(value: &Variable) -> String {
    match value {
        Variable::Number(number) => format!("the number `{number}`"),
        Variable::Null => "a null inside a list".to_owned(),
        Variable::Array(_) => "a list inside a list".to_owned(),
        Variable::Object(_) => "an object".to_owned(),
        Variable::String(_) | Variable::Bool(_) | Variable::Expref(_) => {
            "something else".to_owned()
        }
    }
}

impl FromStr for Expression {
    type Err = String;

    fn from_str(text: &str) -> Result<Expression, String> {
        let compiled = jmespath::compile(text).map_err(|error| {
            format!(
                "no JMESPath expression: {} (at column {})",
                error.reason, error.column
            )
        })?;
        match step_max(compiled.as_ast()) {
            step if step > SLICE_STEP_MAX => Err(format!(
                "a slice has the step `{step}`, at most {SLICE_STEP_MAX} is allowed"
            )),
            _ => Ok(Expression {
                plain: Plain::of(compiled.as_ast()),
                compiled,
            }),
        }
    }
}

/// The largest step of all slices; zero where there is none.
fn step_max(ast: &Ast) -> i32 {
    match ast {
        Ast::Slice { step, .. } => *step,
        Ast::Identity { .. } | Ast::Field { .. } | Ast::Index { .. } | Ast::Literal { .. } => 0,
        Ast::Expref { ast: node, .. }
        | Ast::Flatten { node, .. }
        | Ast::Not { node, .. }
        | Ast::ObjectValues { node, .. } => step_max(node),
        Ast::Comparison { lhs, rhs, .. }
        | Ast::Projection { lhs, rhs, .. }
        | Ast::And { lhs, rhs, .. }
        | Ast::Or { lhs, rhs, .. }
        | Ast::Subexpr { lhs, rhs, .. }
        | Ast::Condition {
            predicate: lhs,
            then: rhs,
            ..
        } => step_max(lhs).max(step_max(rhs)),
        Ast::Function { args: nodes, .. }
        | Ast::MultiList {
            elements: nodes, ..
        } => nodes.iter().map(step_max).max().unwrap_or(0),
        Ast::MultiHash { elements, .. } => {
            let steps = elements.iter().map(|pair| step_max(&pair.value));
            steps.max().unwrap_or(0)
        }
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expression({})", self.compiled.as_str())
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Expression) -> bool {
        self.compiled.as_str() == other.compiled.as_str()
    }
}

/// Where an event's id comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum EventIdRule {
    /// The SQS message id: only redeliveries are the same event.
    MessageId,
    /// The content hash of the body.
    BodyHash,
    /// A message attribute.
    Attribute(String),
    /// An expression over the JSON body.
    Json(Expression),
}

impl FromStr for EventIdRule {
    type Err = String;

    fn from_str(text: &str) -> Result<EventIdRule, String> {
        match text.split_once(':') {
            None if text == "message-id" => Ok(EventIdRule::MessageId),
            None if text == "body-hash" => Ok(EventIdRule::BodyHash),
            Some(("attribute", name)) if !name.is_empty() => {
                Ok(EventIdRule::Attribute(name.to_owned()))
            }
            Some(("json", expression)) => expression.parse().map(EventIdRule::Json),
            Some(_) | None => Err(
                "expected `message-id`, `body-hash`, `attribute:NAME` or `json:EXPRESSION`"
                    .to_owned(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(expression: &str, body: &str) -> Result<String, ExpressionError> {
        let body = Rcvar::new(Variable::from_json(body).unwrap());
        expression.parse::<Expression>().unwrap().text(&body)
    }

    #[test]
    fn scalars_have_one_text() {
        let body =
            r#"{"s":"a b","n":42,"big":18446744073709551615,"neg":-7,"t":true,"o":{"in":["x"]}}"#;
        for (expression, expected) in [
            ("s", "a b"),
            ("n", "42"),
            ("big", "18446744073709551615"),
            ("neg", "-7"),
            ("t", "true"),
            ("o.in[0]", "x"),
        ] {
            assert_eq!(text(expression, body).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn a_list_joins_to_one_text_and_different_lists_to_different_texts() {
        assert_eq!(text("[a, b]", r#"{"a":"x","b":7}"#).as_deref(), Ok("x|7"));
        let left = text("[a, b]", r#"{"a":"x|y","b":"z"}"#).unwrap();
        let right = text("[a, b]", r#"{"a":"x","b":"y|z"}"#).unwrap();
        assert_ne!(left, right);
    }

    #[test]
    fn what_has_no_text_is_refused_by_name() {
        for (expression, body, words) in [
            ("id", "{}", "`id` finds nothing"),
            ("id", r#"{"id":null}"#, "`id` finds nothing"),
            ("id", r#"{"id":""}"#, "`id` finds nothing"),
            ("id", r#"{"id":{}}"#, "`id` finds an object"),
            ("id", r#"{"id":1.5}"#, "the number `1.5`"),
            (
                "id",
                r#"{"id":123456789012345678901234567890}"#,
                "expected a string, a whole number",
            ),
            ("[id, other]", r#"{"id":"a"}"#, "a null inside a list"),
            ("abs(id)", r#"{"id":"a"}"#, "cannot be evaluated"),
        ] {
            let error = text(expression, body).unwrap_err().to_string();
            assert!(error.contains(words), "{words} in {error}");
        }
    }

    #[test]
    fn repro_a_slice_stepped_beyond_32_bits_and_took_the_function_with_it() {
        for wide in [
            "[1::2147483647]",
            "a.b[?c[:9:1048577]]",
            "map(&[::1048577], [@])",
            "{x: !a || (b && @[::1048577][].*)}",
        ] {
            let error = wide.parse::<Expression>().unwrap_err();
            assert!(
                error.starts_with("a slice has the step `"),
                "{wide}: {error}"
            );
        }
        assert_eq!(text("[1::1048576]", "[1,2,3]").as_deref(), Ok("2"));
        assert_eq!(text("[::-2147483647]", "[1,2,3]").as_deref(), Ok("3"));
    }

    #[test]
    fn rules_are_read_and_others_refused_with_what_is_allowed() {
        assert_eq!("message-id".parse(), Ok(EventIdRule::MessageId));
        assert_eq!("body-hash".parse(), Ok(EventIdRule::BodyHash));
        assert_eq!(
            "attribute:order".parse(),
            Ok(EventIdRule::Attribute("order".to_owned()))
        );
        assert_eq!(
            "json:a.b".parse(),
            Ok(EventIdRule::Json("a.b".parse().unwrap()))
        );
        for wrong in ["", "id", "attribute:", "jsn:a", "MESSAGE-ID"] {
            assert!(
                wrong
                    .parse::<EventIdRule>()
                    .unwrap_err()
                    .contains("`message-id`"),
                "{wrong}"
            );
        }
    }
}
