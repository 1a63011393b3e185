//! The modules of a crate, as the compiler finds them: by `mod` items and `#[path]`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::{Attribute, Item, Meta, UseTree};

/// A crate. The first module is its root.
pub(crate) struct Crate {
    pub(crate) files: Vec<File>,
    pub(crate) modules: Vec<Module>,
    /// How often the sources name a feature.
    pub(crate) features: usize,
}

/// A source file.
pub(crate) struct File {
    /// The path below the folder of the sources, without `.rs`.
    pub(crate) name: String,
    lines: usize,
}

/// A module, in a file of its own or inline.
pub(crate) struct Module {
    pub(crate) file: usize,
    pub(crate) parent: Option<usize>,
    pub(crate) children: BTreeMap<String, usize>,
    /// What `use` brings in: a name and its path.
    pub(crate) uses: BTreeMap<String, Vec<String>>,
    /// Paths that are brought in whole: `use path::*`.
    pub(crate) globs: Vec<Vec<String>>,
    /// The names of the items that are defined here.
    pub(crate) defined: BTreeSet<String>,
    pub(crate) items: Vec<Item>,
}

impl File {
    pub(crate) fn is_root(&self) -> bool {
        self.name == "lib"
    }

    pub(crate) fn room(&self) -> &str {
        self.name.split('/').next().expect("a name has a first part")
    }
}

impl Module {
    /// Returns a module of no file.
    pub(crate) fn scratch() -> Module {
        let (children, uses, globs, defined) = Default::default();
        Module { file: 0, parent: None, children, uses, globs, defined, items: Vec::new() }
    }
}

impl Crate {
    /// Loads the crate in `folder`.
    pub(crate) fn load(folder: &Path) -> Crate {
        let mut loaded = Crate { files: Vec::new(), modules: Vec::new(), features: 0 };
        loaded.add_file(folder, &folder.join("lib.rs"), folder.to_owned(), None);
        loaded
    }

    pub(crate) fn lines(&self) -> usize {
        self.files.iter().map(|file| file.lines).sum()
    }

    pub(crate) fn rooms(&self) -> BTreeSet<&str> {
        self.files.iter().map(File::room).collect()
    }

    /// Adds the module in the file `path`. Its children lie in `inner`.
    fn add_file(&mut self, root: &Path, path: &Path, inner: PathBuf, parent: Option<usize>) -> usize {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let name = path.strip_prefix(root).expect("a file of the crate").with_extension("");
        self.files.push(File { name: name.to_string_lossy().into_owned(), lines: text.lines().count() });
        self.features += text.matches("feature = \"").count();
        let folder = path.parent().expect("a file has a folder").to_owned();
        self.add_module(root, parsed.items, self.files.len() - 1, &folder, inner, parent)
    }

    fn add_module(
        &mut self,
        root: &Path,
        items: Vec<Item>,
        file: usize,
        folder: &Path,
        inner: PathBuf,
        parent: Option<usize>,
    ) -> usize {
        let own = self.modules.len();
        let (children, uses, globs, defined) = Default::default();
        self.modules.push(Module { file, parent, children, uses, globs, defined, items: Vec::new() });
        let mut kept = Vec::new();
        for item in items {
            if is_for_tests(attributes(&item)) {
                continue;
            }
            match item {
                Item::Mod(item) => {
                    let name = item.ident.to_string();
                    let inner = inner.join(&name);
                    let child = match (item.content, path_of(&item.attrs)) {
                        (Some((_, items)), _) => self.add_module(root, items, file, folder, inner, Some(own)),
                        (None, Some(path)) => {
                            let path = folder.join(path);
                            let inner = path.parent().expect("a file has a folder").to_owned();
                            self.add_file(root, &path, inner, Some(own))
                        }
                        (None, None) => self.add_file(root, &file_of(&inner), inner, Some(own)),
                    };
                    self.modules[own].children.entry(name).or_insert(child);
                }
                Item::Use(item) => add_use(&mut self.modules[own], &item.tree, &mut Vec::new()),
                item => {
                    self.modules[own].defined.extend(name_of(&item));
                    kept.push(item);
                }
            }
        }
        self.modules[own].items = kept;
        own
    }
}

/// Adds the leaves of a `use` tree to the module.
pub(crate) fn add_use(module: &mut Module, tree: &UseTree, before: &mut Vec<String>) {
    let path = |before: &[String], last: &syn::Ident| {
        // `use a::{self}` names `a`.
        let last = (last != "self").then(|| last.to_string());
        before.iter().cloned().chain(last).collect::<Vec<_>>()
    };
    match tree {
        UseTree::Path(tree) => {
            before.push(tree.ident.to_string());
            add_use(module, &tree.tree, before);
            before.pop();
        }
        UseTree::Name(tree) => {
            let path = path(before, &tree.ident);
            module.uses.insert(path.last().cloned().unwrap_or_default(), path);
        }
        UseTree::Rename(tree) => _ = module.uses.insert(tree.rename.to_string(), path(before, &tree.ident)),
        UseTree::Glob(_) => module.globs.push(before.clone()),
        UseTree::Group(tree) => tree.items.iter().for_each(|tree| add_use(module, tree, before)),
    }
}

fn file_of(inner: &Path) -> PathBuf {
    let beside = inner.with_extension("rs");
    if beside.exists() { beside } else { inner.join("mod.rs") }
}

/// Returns the value of `#[path = ".."]`.
fn path_of(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    })
}

/// Returns `true` if only tests or models build what has these attributes.
pub(crate) fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            let text = list.tokens.to_string().replace(' ', "");
            ["test", "loom", "feature=\"models\""]
                .iter()
                .any(|name| text == *name || text.starts_with(&format!("all({name},")))
        }
        _ => false,
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn name_of(item: &Item) -> Option<String> {
    match item {
        Item::Const(item) => Some(item.ident.to_string()),
        Item::Enum(item) => Some(item.ident.to_string()),
        Item::Fn(item) => Some(item.sig.ident.to_string()),
        Item::Macro(item) => item.ident.as_ref().map(ToString::to_string),
        Item::Static(item) => Some(item.ident.to_string()),
        Item::Struct(item) => Some(item.ident.to_string()),
        Item::Trait(item) => Some(item.ident.to_string()),
        Item::Type(item) => Some(item.ident.to_string()),
        Item::Union(item) => Some(item.ident.to_string()),
        _ => None,
    }
}
