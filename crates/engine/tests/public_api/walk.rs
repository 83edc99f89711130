//! What a program can name in a crate, read from its sources.
//!
//! The walk begins at `lib.rs` and goes through public modules and re-exports. Of an item it says all that a
//! program can hold on to: its signature, public fields, variants, methods, and the traits it implements.
//! What it does not see: items that macros make, traits that follow by themselves (`Send`, `Sync`), and items
//! with `#[doc(hidden)]`, which promise nothing.

use quote::ToTokens;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use syn::{Attribute, Fields, ImplItem, Item, TraitItem, UseTree, Visibility};

/// A module by its path within the crate: `["io", "direct"]`.
type ModulePath = Vec<String>;

/// The items of all modules that are not for tests alone.
type Modules = BTreeMap<ModulePath, Vec<Item>>;

/// Where an item is defined, and its name there.
type Definition = (ModulePath, String);

/// What a crate shows.
pub struct Face {
    /// A line for everything public, sorted.
    pub lines: Vec<String>,
    /// The functions and methods whose documentation has no example.
    pub without_example: Vec<String>,
}

/// Returns everything public that `lib` leads to; the crate is called `name`.
pub fn face(lib: &Path, name: &str) -> Face {
    let mut modules = Modules::new();
    read_module(lib, lib.parent().unwrap(), Vec::new(), &mut modules);
    let mut walk = Walk {
        modules: &modules,
        lines: BTreeSet::new(),
        types: BTreeMap::new(),
        traits: BTreeMap::new(),
        without_example: BTreeSet::new(),
    };
    walk.module(&[], name);
    walk.implementations();
    for (name, traits) in &walk.traits {
        let traits: Vec<&str> = traits.iter().map(String::as_str).collect();
        walk.lines.insert(format!("impl {name}: {}", traits.join(", ")));
    }
    Face {
        lines: walk.lines.into_iter().collect(),
        without_example: walk.without_example.into_iter().collect(),
    }
}

/// Whether a documentation has an example.
fn has_example(attributes: &[Attribute]) -> bool {
    let docs = attributes.iter().filter(|attribute| attribute.path().is_ident("doc"));
    docs.map(|attribute| text_of(&attribute.meta)).any(|line| line.contains("```"))
}

/// Reads the module in `file`, whose own modules lie in `dir`.
fn read_module(file: &Path, dir: &Path, path: ModulePath, modules: &mut Modules) {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let items = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display())).items;
    add_module(items, dir, path, modules);
}

fn add_module(items: Vec<Item>, dir: &Path, path: ModulePath, modules: &mut Modules) {
    let mut items: Vec<Item> = items.into_iter().filter(|item| !is_hidden(attributes(item))).collect();
    for item in &mut items {
        let Item::Mod(module) = item else { continue };
        let name = module.ident.to_string();
        let below = [&path[..], std::slice::from_ref(&name)].concat();
        let inner = dir.join(&name);
        match module.content.take() {
            Some((_, items)) => add_module(items, &inner, below, modules),
            None if inner.join("mod.rs").exists() => {
                read_module(&inner.join("mod.rs"), &inner, below, modules)
            }
            None => read_module(&dir.join(format!("{name}.rs")), &inner, below, modules),
        }
    }
    modules.insert(path, items);
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

/// Whether an item is for tests alone, or shown to nobody.
fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match text_of(&attribute.meta).as_str() {
        "cfg(test)" | "doc(hidden)" => true,
        // What `sim` brings is for tests of the engine and of programs that embed it.
        other => other == "cfg(feature = \"sim\")" || other == "cfg(any(test, feature = \"sim\"))",
    })
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn non_exhaustive(attributes: &[Attribute]) -> &'static str {
    let found = attributes.iter().any(|attribute| attribute.path().is_ident("non_exhaustive"));
    if found { " (non_exhaustive)" } else { "" }
}

/// Tokens as a person would write them.
fn text_of(tokens: &impl ToTokens) -> String {
    let spaced = tokens.to_token_stream().to_string();
    let mut text = spaced.replace(" -> ", "\u{1}").replace(" ,)", ")");
    for mark in ["::", "<", "(", "[", "&", "!", "?", "'", "#"] {
        text = text.replace(&format!("{mark} "), mark);
    }
    for mark in ["::", "<", ">", "(", ")", "]", ",", ":", ";", "!"] {
        text = text.replace(&format!(" {mark}"), mark);
    }
    text.replace(",)", ")").replace('\u{1}', " -> ")
}

struct Walk<'a> {
    modules: &'a Modules,
    lines: BTreeSet<String>,
    /// Public types by where they are defined, with the names under which programs know them.
    types: BTreeMap<Definition, BTreeSet<String>>,
    /// The traits that public types implement, by the types' public names.
    traits: BTreeMap<String, BTreeSet<String>>,
    without_example: BTreeSet<String>,
}

impl Walk<'_> {
    /// Adds everything public in a module that programs know as `public`.
    fn module(&mut self, module: &[String], public: &str) {
        let modules = self.modules;
        for item in &modules[module] {
            match item {
                Item::Mod(inner) if is_public(&inner.vis) => {
                    let name = format!("{public}::{}", inner.ident);
                    self.lines.insert(format!("mod {name}"));
                    self.module(&below(module, &inner.ident.to_string()), &name);
                }
                Item::Use(item) if is_public(&item.vis) => {
                    for leaf in leaves(&item.tree) {
                        self.reexport(module, &leaf, public);
                    }
                }
                _ => {
                    if let Some(name) = public_name(item) {
                        self.item(module, item, &format!("{public}::{name}"));
                    }
                }
            }
        }
    }

    fn reexport(&mut self, module: &[String], leaf: &Leaf, public: &str) {
        let name = format!("{public}::{}", leaf.name);
        let Some((home, defined)) = resolve(self.modules, module, &leaf.path) else {
            self.lines.insert(format!("use {} as {name}", leaf.path.join("::")));
            return;
        };
        let inner = below(&home, &defined);
        if self.modules.contains_key(&inner) {
            self.lines.insert(format!("mod {name}"));
            self.module(&inner, &name);
            return;
        }
        let modules = self.modules;
        let item = modules[&home].iter().find(|item| public_name(item).is_some_and(|found| found == defined));
        let item = item.unwrap_or_else(|| panic!("{name}: no {defined} in {}", home.join("::")));
        self.item(&home, item, &name);
    }

    fn item(&mut self, module: &[String], item: &Item, name: &str) {
        let lines = &mut self.lines;
        match item {
            Item::Const(item) => _ = lines.insert(format!("const {name}: {}", text_of(&item.ty))),
            Item::Static(item) => _ = lines.insert(format!("static {name}: {}", text_of(&item.ty))),
            Item::Type(item) => {
                _ = lines.insert(format!("type {name}{} = {}", text_of(&item.generics), text_of(&item.ty)));
            }
            Item::Fn(item) => {
                lines.insert(signature(&item.sig, name));
                self.note_example(&item.attrs, name);
            }
            Item::Struct(item) => {
                let kind = non_exhaustive(&item.attrs);
                lines.insert(format!("struct {name}{}{kind}", generics(&item.generics)));
                lines.extend(fields(&item.fields, name));
                self.has_type(module, &item.ident.to_string(), name, &item.attrs);
            }
            Item::Enum(item) => {
                let kind = non_exhaustive(&item.attrs);
                lines.insert(format!("enum {name}{}{kind}", generics(&item.generics)));
                for variant in &item.variants {
                    let kind = non_exhaustive(&variant.attrs);
                    let shape = variant_shape(&variant.fields);
                    lines.insert(format!("enum {name}::{}{shape}{kind}", variant.ident));
                }
                self.has_type(module, &item.ident.to_string(), name, &item.attrs);
            }
            Item::Trait(item) => {
                let above = if item.supertraits.is_empty() {
                    String::new()
                } else {
                    format!(": {}", text_of(&item.supertraits))
                };
                lines.insert(format!("trait {name}{}{above}", generics(&item.generics)));
                lines.extend(item.items.iter().filter_map(|item| trait_line(item, name)));
            }
            _ => {}
        }
    }

    /// Notes a public type, and the traits that it derives.
    fn has_type(&mut self, module: &[String], defined: &str, name: &str, attributes: &[Attribute]) {
        let definition = (module.to_vec(), defined.to_owned());
        self.types.entry(definition).or_default().insert(name.to_owned());
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("derive")) {
            let _ = attribute.parse_nested_meta(|meta| {
                self.has_trait(name, &meta.path);
                Ok(())
            });
        }
    }

    /// Notes a trait by its own name, however it is reached.
    fn has_trait(&mut self, name: &str, path: &syn::Path) {
        let own = path.segments.last().map(text_of).unwrap_or_default();
        self.traits.entry(name.to_owned()).or_default().insert(own);
    }

    /// Adds the methods of public types and the traits that they implement, wherever in the crate that is.
    fn implementations(&mut self) {
        let modules = self.modules;
        for (module, items) in modules {
            for item in items {
                let Item::Impl(block) = item else { continue };
                let syn::Type::Path(path) = &*block.self_ty else { continue };
                let words: Vec<String> =
                    path.path.segments.iter().map(|word| word.ident.to_string()).collect();
                let Some(definition) = resolve(modules, module, &words) else { continue };
                for name in self.types.get(&definition).cloned().unwrap_or_default() {
                    self.implementation(block, &name);
                }
            }
        }
    }

    fn note_example(&mut self, attributes: &[Attribute], name: &str) {
        if !has_example(attributes) {
            self.without_example.insert(name.to_owned());
        }
    }

    fn implementation(&mut self, block: &syn::ItemImpl, name: &str) {
        if let Some((_, path, _)) = &block.trait_ {
            self.has_trait(name, path);
            return;
        }
        for item in &block.items {
            match item {
                ImplItem::Fn(item) if is_public(&item.vis) && !is_hidden(&item.attrs) => {
                    let name = format!("{name}::{}", item.sig.ident);
                    self.lines.insert(signature(&item.sig, &name));
                    self.note_example(&item.attrs, &name);
                }
                ImplItem::Const(item) if is_public(&item.vis) && !is_hidden(&item.attrs) => {
                    self.lines.insert(format!("const {name}::{}: {}", item.ident, text_of(&item.ty)));
                }
                _ => {}
            }
        }
    }
}

fn below(module: &[String], name: &str) -> ModulePath {
    module.iter().cloned().chain([name.to_owned()]).collect()
}

/// The name of an item that is public where it is defined.
fn public_name(item: &Item) -> Option<String> {
    let (visibility, name) = named(item)?;
    is_public(visibility).then_some(name)
}

fn named(item: &Item) -> Option<(&Visibility, String)> {
    Some(match item {
        Item::Const(item) => (&item.vis, item.ident.to_string()),
        Item::Enum(item) => (&item.vis, item.ident.to_string()),
        Item::Fn(item) => (&item.vis, item.sig.ident.to_string()),
        Item::Static(item) => (&item.vis, item.ident.to_string()),
        Item::Struct(item) => (&item.vis, item.ident.to_string()),
        Item::Trait(item) => (&item.vis, item.ident.to_string()),
        Item::Type(item) => (&item.vis, item.ident.to_string()),
        _ => return None,
    })
}

/// One name that a `use` brings, and the path that it stands for.
struct Leaf {
    path: Vec<String>,
    name: String,
}

fn leaves(tree: &UseTree) -> Vec<Leaf> {
    match tree {
        UseTree::Path(path) => {
            let mut found = leaves(&path.tree);
            for leaf in &mut found {
                leaf.path.insert(0, path.ident.to_string());
            }
            found
        }
        UseTree::Name(name) if name.ident == "self" => Vec::new(),
        UseTree::Name(name) => {
            vec![Leaf { path: vec![name.ident.to_string()], name: name.ident.to_string() }]
        }
        UseTree::Rename(rename) => {
            vec![Leaf { path: vec![rename.ident.to_string()], name: rename.rename.to_string() }]
        }
        UseTree::Group(group) => group.items.iter().flat_map(leaves).collect(),
        UseTree::Glob(_) => Vec::new(),
    }
}

/// Where the item is defined that `path` means in `module`; none if that is another crate.
fn resolve(modules: &Modules, module: &[String], path: &[String]) -> Option<Definition> {
    let (first, rest) = path.split_first()?;
    let name = match (first.as_str(), rest) {
        ("crate", rest) => return resolve(modules, &[], rest),
        ("self", rest) => return resolve(modules, module, rest),
        ("super", rest) => return resolve(modules, &module[..module.len() - 1], rest),
        (name, []) => name,
        (name, rest) => {
            let inner = below(module, name);
            if modules.contains_key(&inner) {
                return resolve(modules, &inner, rest);
            }
            let (home, defined) = imported(modules, module, name)?;
            return resolve(modules, &below(&home, &defined), rest);
        }
    };
    let items = modules.get(module)?;
    if modules.contains_key(&below(module, name))
        || items.iter().any(|item| named(item).is_some_and(|(_, found)| found == name))
    {
        return Some((module.to_vec(), name.to_owned()));
    }
    imported(modules, module, name)
}

/// Follows the `use` that brings `name` into `module`.
fn imported(modules: &Modules, module: &[String], name: &str) -> Option<Definition> {
    let uses = modules.get(module)?.iter().filter_map(|item| match item {
        Item::Use(item) => Some(leaves(&item.tree)),
        _ => None,
    });
    let leaf = uses.flatten().find(|leaf| leaf.name == name && leaf.path != [name])?;
    resolve(modules, module, &leaf.path)
}

/// A type's parameters and what they must be.
fn generics(generics: &syn::Generics) -> String {
    text_of(generics) + &bounds(generics)
}

fn bounds(generics: &syn::Generics) -> String {
    generics.where_clause.as_ref().map_or_else(String::new, |clause| format!(" {}", text_of(clause)))
}

/// A function's line, under the name that programs use.
fn signature(signature: &syn::Signature, name: &str) -> String {
    let words = [(signature.constness.is_some(), "const "), (signature.unsafety.is_some(), "unsafe ")];
    let before: String = words.into_iter().filter(|(has, _)| *has).map(|(_, word)| word).collect();
    let inputs: Vec<String> = signature.inputs.iter().map(text_of).collect();
    let output = match &signature.output {
        syn::ReturnType::Default => String::new(),
        syn::ReturnType::Type(_, output) => format!(" -> {}", text_of(output)),
    };
    let bounds = bounds(&signature.generics);
    format!("{before}fn {name}{}({}){output}{bounds}", text_of(&signature.generics), inputs.join(", "))
}

fn fields(fields: &Fields, name: &str) -> Vec<String> {
    let public =
        fields.iter().enumerate().filter(|(_, field)| is_public(&field.vis) && !is_hidden(&field.attrs));
    public
        .map(|(at, field)| {
            let field_name = field.ident.as_ref().map_or_else(|| at.to_string(), ToString::to_string);
            format!("field {name}::{field_name}: {}", text_of(&field.ty))
        })
        .collect()
}

fn variant_shape(fields: &Fields) -> String {
    let each = |field: &syn::Field| match &field.ident {
        Some(name) => format!("{name}: {}", text_of(&field.ty)),
        None => text_of(&field.ty),
    };
    let inner: Vec<String> = fields.iter().map(each).collect();
    match fields {
        Fields::Unit => String::new(),
        Fields::Named(_) => format!(" {{ {} }}", inner.join(", ")),
        Fields::Unnamed(_) => format!("({})", inner.join(", ")),
    }
}

fn trait_line(item: &TraitItem, name: &str) -> Option<String> {
    match item {
        TraitItem::Fn(item) if !is_hidden(&item.attrs) => {
            let provided = if item.default.is_some() { " (provided)" } else { "" };
            Some(signature(&item.sig, &format!("{name}::{}", item.sig.ident)) + provided)
        }
        TraitItem::Const(item) => Some(format!("const {name}::{}: {}", item.ident, text_of(&item.ty))),
        TraitItem::Type(item) => Some(format!("type {name}::{}", item.ident)),
        _ => None,
    }
}
