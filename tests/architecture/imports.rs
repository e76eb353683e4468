//! Finds out which files of a crate import which, from their source text.
//!
//! Every path in a file is followed to the file with the item: through modules, `use` and re-exports. Imports are:
//!
//! - a path to an item of another file, in a `use`, a type, a pattern, an expression or the arguments of a macro;
//! - a re-export: the file with the re-export imports the file with the item. A file that uses the re-export imports
//!   the
//!   file with the item too, and not the file with the re-export.
//!
//! A declaration (`mod x;`) is not an import. So a parent may declare, re-export and call its children, as long as none
//! of them imports, directly or through others, an item in the parent's own file. Methods are not paths, so an `impl`
//! block may be spread over several files.
//!
//! Code that is compiled only for tests is left out, and so are macros by example and their expansions.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, Item, ItemMod, Meta, Token, UseTree};

/// For each file of a crate, the other files of the crate that it imports.
pub type Imports = BTreeMap<PathBuf, BTreeSet<PathBuf>>;

/// The limit on re-exports of re-exports. A longer chain is a circle.
const REEXPORTS_MAX: usize = 16;

/// The names of a path or module, from the root of the crate.
type Names = Vec<String>;

/// What a name in a module stands for.
enum Meaning {
    Module,
    Item,
    /// An import, with its path as it is written.
    Import(Names),
}

/// One module, which may be inline in the file of another.
struct Module {
    file: PathBuf,
    names: BTreeMap<String, Meaning>,
    /// Paths of the glob imports.
    globs: Vec<Names>,
    /// Every path in the module, as it is written.
    paths: BTreeSet<Names>,
}

/// All modules of a crate.
#[derive(Default)]
struct Crate(BTreeMap<Names, Module>);

/// Returns the imports between the files of the crate with this root file (`lib.rs` or `main.rs`).
///
/// # Panics
/// If a file is missing or cannot be parsed.
pub fn of_crate(root: &Path) -> Imports {
    let mut all = Crate::default();
    let directory = root.parent().expect("a file is in a folder");
    all.read_file(Names::new(), root, directory);
    let mut imports = Imports::new();
    for (at, module) in &all.0 {
        let of_file = imports.entry(module.file.clone()).or_default();
        let targets = module
            .paths
            .iter()
            .filter_map(|path| all.file_of(at, path, 0));
        of_file.extend(targets.filter(|target| **target != module.file).cloned());
    }
    imports
}

impl Crate {
    /// Reads a module's file; the files of its children are below `directory`.
    fn read_file(&mut self, at: Names, file: &Path, directory: &Path) {
        let text = fs::read_to_string(file);
        let text = text.unwrap_or_else(|error| panic!("read {}: {error}", file.display()));
        let parsed = syn::parse_file(&text);
        let parsed = parsed.unwrap_or_else(|error| panic!("parse {}: {error}", file.display()));
        self.read_module(at, file, directory, parsed.items);
    }

    fn read_module(&mut self, at: Names, file: &Path, directory: &Path, items: Vec<Item>) {
        let mut module = Module {
            file: file.to_owned(),
            names: BTreeMap::new(),
            globs: Vec::new(),
            paths: BTreeSet::new(),
        };
        for item in items
            .into_iter()
            .filter(|item| !is_for_tests(attributes(item)))
        {
            match item {
                Item::Use(item) => module.import(&Names::new(), &item.tree),
                Item::Mod(child) => {
                    module
                        .names
                        .insert(child.ident.to_string(), Meaning::Module);
                    self.read_child(&at, file, directory, child);
                }
                item => {
                    if let Some(name) = name_of(&item) {
                        module.names.insert(name, Meaning::Item);
                    }
                    Paths(&mut module.paths).visit_item(&item);
                }
            }
        }
        self.0.insert(at, module);
    }

    fn read_child(&mut self, parent: &Names, file: &Path, directory: &Path, child: ItemMod) {
        let name = child.ident.to_string();
        let at = below(parent, &name);
        let directory = directory.join(&name);
        if let Some((_, items)) = child.content {
            return self.read_module(at, file, &directory, items);
        }
        if let Some(path) = path_attribute(&child.attrs) {
            let child = file.with_file_name(path);
            let directory = child.parent().expect("a file is in a folder").to_owned();
            return self.read_file(at, &child, &directory);
        }
        let own = directory.with_extension("rs");
        let child = if own.exists() {
            own
        } else {
            directory.join("mod.rs")
        };
        self.read_file(at, &child, &directory);
    }

    /// Returns the file with the item of a path; `None` if the item is in another crate, or the path is not an item.
    fn file_of(&self, at: &Names, path: &[String], reexports: usize) -> Option<&PathBuf> {
        let (mut at, path) = self.start(at, path)?;
        let mut module = self.0.get(&at)?;
        for (index, name) in path.iter().enumerate() {
            match module.names.get(name) {
                Some(Meaning::Module) => {
                    at = below(&at, name);
                    module = self.0.get(&at)?;
                }
                Some(Meaning::Item) => return Some(&module.file),
                Some(Meaning::Import(_)) | None if reexports == REEXPORTS_MAX => return None,
                Some(Meaning::Import(import)) => {
                    let path = [import, &path[index + 1..]].concat();
                    return self.file_of(&at, &path, reexports + 1);
                }
                None => {
                    let by_glob = |glob: &Names| {
                        let path = [glob, &path[index..]].concat();
                        self.file_of(&at, &path, reexports + 1)
                    };
                    return module.globs.iter().find_map(by_glob);
                }
            }
        }
        Some(&module.file)
    }

    /// Returns the module in which a path starts, and the path without `crate`, `self` or `super`.
    fn start<'p>(&self, at: &Names, path: &'p [String]) -> Option<(Names, &'p [String])> {
        match path.first()?.as_str() {
            "crate" => Some((Names::new(), &path[1..])),
            "self" => Some((at.clone(), &path[1..])),
            "super" => {
                let up = path.iter().take_while(|name| *name == "super").count();
                let left = at.len().checked_sub(up)?;
                Some((at[..left].to_vec(), &path[up..]))
            }
            _ => Some((at.clone(), path)),
        }
    }
}

impl Module {
    /// Records the names and the paths of a `use`.
    fn import(&mut self, prefix: &Names, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => self.import(&below(prefix, &path.ident.to_string()), &path.tree),
            UseTree::Name(name) => self.import_as(prefix, &name.ident.to_string(), None),
            UseTree::Rename(name) => {
                self.import_as(
                    prefix,
                    &name.ident.to_string(),
                    Some(name.rename.to_string()),
                );
            }
            UseTree::Glob(_) => {
                self.globs.push(prefix.clone());
                self.paths.insert(prefix.clone());
            }
            UseTree::Group(group) => group
                .items
                .iter()
                .for_each(|tree| self.import(prefix, tree)),
        }
    }

    fn import_as(&mut self, prefix: &Names, name: &str, alias: Option<String>) {
        let path = match name {
            "self" => prefix.clone(),
            name => below(prefix, name),
        };
        let name = alias.or_else(|| path.last().cloned()).unwrap_or_default();
        self.paths.insert(path.clone());
        // `use name;` does not change the meaning of the name.
        if path != [name.clone()] {
            self.names.insert(name, Meaning::Import(path));
        }
    }
}

/// Collects paths of more than one name. A single name is in the file itself, or imported by a `use`.
struct Paths<'m>(&'m mut BTreeSet<Names>);

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Names = path
            .segments
            .iter()
            .map(|one| one.ident.to_string())
            .collect();
        if names.len() > 1 && path.leading_colon.is_none() {
            self.0.insert(names);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        // Macro arguments are read as expressions, which is correct for most macros.
        if let Ok(arguments) = call.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated)
        {
            let mut inner = Paths(self.0);
            arguments.iter().for_each(|one| inner.visit_expr(one));
        }
        visit::visit_macro(self, call);
    }

    fn visit_impl_item_fn(&mut self, method: &'ast syn::ImplItemFn) {
        if !is_for_tests(&method.attrs) {
            visit::visit_impl_item_fn(self, method);
        }
    }
}

fn below(parent: &Names, name: &str) -> Names {
    [parent.as_slice(), &[name.to_owned()]].concat()
}

/// Returns whether an item is compiled only for tests.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let condition = attribute
            .path()
            .is_ident("cfg")
            .then(|| attribute.parse_args::<Meta>());
        match condition {
            Some(Ok(Meta::Path(path))) => path.is_ident("test"),
            Some(Ok(Meta::List(list))) if list.path.is_ident("all") => {
                let all = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
                all.is_ok_and(|all| all.iter().any(|one| one.path().is_ident("test")))
            }
            Some(_) | None => false,
        }
    })
}

/// Returns the file in `#[path = ".."]`.
fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    attributes
        .iter()
        .find_map(|attribute| match &attribute.meta {
            Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
                Expr::Lit(syn::ExprLit {
                    lit: syn::Lit::Str(path),
                    ..
                }) => Some(path.value()),
                _ => None,
            },
            _ => None,
        })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Returns the name of an item that a path can name.
fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}
