//! Reads SAM templates, so that the emulators can be started with the queues, tables and functions that are deployed.
//!
//! Only the intrinsic functions `Ref`, `Fn::GetAtt`, `Fn::If`, `Fn::FindInMap`, `Fn::Select`, `Fn::Split` and `Fn::Sub` of a text are supported, with
//! conditions of `Fn::Equals` and `Fn::Not`. Others, and references to something that does not exist, are errors where their value is
//! needed. Queues, tables, functions and alarms are read; resources of other kinds, such as roles, are ignored.
//!
//! | file | contents |
//! |---|---|
//! | `template` | parses a template, and resolves its references and functions, as CloudFormation would |
//! | `resources` | the resolved resources |
//! | `text` | the values of a template as texts |

mod resources;
mod template;
mod text;

pub use resources::{Function, Mapping, Queue, RedrivePolicy, Resources};
pub use template::{Template, local_name};
