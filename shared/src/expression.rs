//! JMESPath expressions, compiled once.

use std::fmt;
use std::str::FromStr;

use jmespath::ast::Ast;
use jmespath::{Context, DEFAULT_RUNTIME, Rcvar};

/// Largest step of a slice: no list in a body of 1 MB is longer. The library adds the step to a position in 32 bits,
/// which must not overflow.
const SLICE_STEP_MAX: i32 = 1 << 20;

/// A JMESPath expression.
#[derive(Clone)]
pub struct Expression {
    compiled: jmespath::Expression<'static>,
}

impl Expression {
    /// Returns the value that the expression finds in a JSON body.
    ///
    /// # Errors
    /// Why it cannot be evaluated on this body; the same body fails every time.
    pub fn find(&self, body: &Rcvar) -> Result<Rcvar, String> {
        // Not by `search`, which serialises the body into another one first.
        let mut context = Context::new(self.as_str(), &DEFAULT_RUNTIME);
        jmespath::interpret(body, self.compiled.as_ast(), &mut context)
            .map_err(|error| error.reason.to_string())
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        self.compiled.as_str()
    }
}

impl FromStr for Expression {
    type Err = String;

    fn from_str(text: &str) -> Result<Expression, String> {
        let compiled = jmespath::compile(text).map_err(|error| {
            format!(
                "not a JMESPath expression: {} (at column {})",
                error.reason, error.column
            )
        })?;
        match step_max(compiled.as_ast()) {
            step if step > SLICE_STEP_MAX => Err(format!(
                "slice step too large: got `{step}`, expected at most {SLICE_STEP_MAX}"
            )),
            _ => Ok(Expression { compiled }),
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
        write!(f, "Expression({})", self.as_str())
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Expression) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Expression {}

#[cfg(test)]
mod tests {
    use jmespath::Variable;

    use super::*;

    fn found(expression: &str, body: &str) -> Result<String, String> {
        let body = Rcvar::new(Variable::from_json(body).unwrap());
        let found = expression.parse::<Expression>().unwrap().find(&body)?;
        Ok(found.to_string())
    }

    #[test]
    fn an_expression_finds_json_or_says_why_not() {
        assert_eq!(found("a.b", r#"{"a":{"b":[1]}}"#).as_deref(), Ok("[1]"));
        assert_eq!(found("a.c", r#"{"a":{"b":[1]}}"#).as_deref(), Ok("null"));
        assert!(found("abs(a)", r#"{"a":"x"}"#).is_err());
        let error = "a[".parse::<Expression>().unwrap_err();
        assert!(error.starts_with("not a JMESPath expression: "), "{error}");
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
                error.starts_with("slice step too large: got `"),
                "{wide}: {error}"
            );
        }
        assert_eq!(found("[1::1048576]", "[1,2,3]").as_deref(), Ok("[2]"));
        assert_eq!(found("[::-2147483647]", "[1,2,3]").as_deref(), Ok("[3]"));
    }
}
