//! COMMAND: the table of commands, as clients ask for it.

use super::acl::Acl;
use super::spec::{Keys, Spec, flags, flags::*, lookup, table};
use super::{Context, help, text, unknown_subcommand};
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::glob;
use crate::resp::{Output, Request};

pub const TABLE: &[Spec] =
    &[Spec::new("command", -1, ALONE | INSTANT, command).about("server", "2.8.13", "Tells of commands.")];

fn command(_context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    if request.len() == 1 {
        out.array(table().count());
        table().for_each(|spec| describe(spec, out));
        return Ok(());
    }
    match (request.get(1).to_ascii_uppercase().as_slice(), request.len()) {
        (b"COUNT", 2) => out.count(table().count()),
        (b"INFO", 2) => {
            out.array(table().count());
            table().for_each(|spec| describe(spec, out));
        }
        (b"INFO", _) => {
            out.array(request.len() - 2);
            for name in request.from(2) {
                match lookup(name) {
                    Some((_, spec)) => describe(spec, out),
                    None => out.null_array(),
                }
            }
        }
        (b"DOCS", 2) => {
            out.map(table().count());
            table().for_each(|spec| document(spec, out));
        }
        (b"DOCS", _) => {
            let found: Vec<_> = request.from(2).filter_map(lookup).collect();
            out.map(found.len());
            found.iter().for_each(|(_, spec)| document(spec, out));
        }
        (b"LIST", _) => list(request, out)?,
        (b"GETKEYS", 3..) => keys(request, out, false)?,
        (b"GETKEYSANDFLAGS", 3..) => keys(request, out, true)?,
        (b"HELP", 2) => help(out, "COMMAND", &["(no subcommand)", "    Return details about all commands."]),
        _ => return Err(unknown_subcommand(request)),
    }
    Ok(())
}

fn flag_names(spec: &Spec) -> Vec<&'static str> {
    flags::NAMES.iter().filter(|(flag, _)| spec.is(*flag)).map(|(_, name)| *name).collect()
}

fn describe(spec: &Spec, out: &mut Output) {
    let (first, last, step) = match spec.keys {
        Keys::None | Keys::Counted => (0, 0, 0),
        Keys::Range { first, last, step } => (first, last, step),
        Keys::Migrated => (3, 3, 1),
    };
    let number = |number: isize| i64::try_from(number).unwrap_or(0);
    out.array(10);
    out.text(spec.name);
    out.integer(number(spec.arity));
    let mut names = flag_names(spec);
    if matches!(spec.keys, Keys::Counted | Keys::Migrated) {
        names.push("movablekeys");
    }
    out.set(names.len());
    names.iter().for_each(|name| out.simple(name));
    out.count(first);
    out.integer(number(last));
    out.count(step);
    let categories = spec.categories();
    out.set(categories.len());
    categories.iter().for_each(|name| out.simple(&format!("@{name}")));
    out.array(0);
    key_specs(spec, out);
    out.array(0);
}

fn key_specs(spec: &Spec, out: &mut Output) {
    let access = if spec.writes() { "RW" } else { "RO" };
    let begin = |out: &mut Output, index: usize| {
        out.array(1);
        out.map(3);
        out.text("flags");
        out.set(1);
        out.simple(access);
        out.text("begin_search");
        out.map(2);
        out.text("type");
        out.text("index");
        out.text("spec");
        out.map(1);
        out.text("index");
        out.count(index);
        out.text("find_keys");
        out.map(2);
        out.text("type");
    };
    match spec.keys {
        Keys::None => out.array(0),
        Keys::Range { first, last, step } => {
            begin(out, first);
            out.text("range");
            out.text("spec");
            out.map(3);
            out.text("lastkey");
            let first = isize::try_from(first).unwrap_or(0);
            out.integer(i64::try_from(if last < 0 { last } else { last - first }).unwrap_or(0));
            out.text("keystep");
            out.count(step);
            out.text("limit");
            out.integer(0);
        }
        Keys::Migrated => {
            begin(out, 3);
            out.text("range");
            out.text("spec");
            out.map(3);
            for (name, value) in [("lastkey", 0), ("keystep", 1), ("limit", 0)] {
                out.text(name);
                out.integer(value);
            }
        }
        Keys::Counted => {
            begin(out, 1);
            out.text("keynum");
            out.text("spec");
            out.map(3);
            for (name, value) in [("keynumidx", 0), ("firstkey", 1), ("keystep", 1)] {
                out.text(name);
                out.integer(value);
            }
        }
    }
}

fn document(spec: &Spec, out: &mut Output) {
    out.text(spec.name);
    out.map(3);
    for (name, value) in [("summary", spec.summary), ("since", spec.since), ("group", spec.group)] {
        out.text(name);
        out.text(value);
    }
}

fn list(request: &Request, out: &mut Output) -> Outcome {
    let filter: Box<dyn Fn(&Spec) -> bool> = match request.len() {
        2 => Box::new(|_| true),
        5 if super::arguments::is(request.get(2), "FILTERBY") => {
            let value = text(request.get(4));
            match request.get(3).to_ascii_uppercase().as_slice() {
                b"MODULE" => Box::new(|_| false),
                b"ACLCAT" => {
                    let value = value.to_lowercase();
                    Box::new(move |spec| Acl::categories_of(spec).contains(&value.as_str()))
                }
                b"PATTERN" => {
                    Box::new(move |spec| glob::matches_any_case(value.as_bytes(), spec.name.as_bytes()))
                }
                _ => return Err(SYNTAX),
            }
        }
        _ => return Err(SYNTAX),
    };
    let names: Vec<_> = table().filter(|spec| filter(spec)).map(|spec| spec.name).collect();
    out.array(names.len());
    names.iter().for_each(|name| out.text(name));
    Ok(())
}

fn keys(request: &Request, out: &mut Output, with_flags: bool) -> Outcome {
    let inner = Request::of(&request.from(2).collect::<Vec<_>>());
    let Some((_, spec)) = lookup(inner.get(0)) else {
        return Err(Failure::coded("ERR Invalid command specified"));
    };
    if matches!(spec.keys, Keys::None) {
        return Err(Failure::coded("ERR The command has no key arguments"));
    }
    if !spec.takes(&inner) {
        return Err(Failure::coded("ERR Invalid number of arguments specified for command"));
    }
    let places: Vec<usize> = spec.keys.places(&inner).collect();
    if places.is_empty() {
        return Err(Failure::coded("ERR Invalid arguments specified for command"));
    }
    out.array(places.len());
    for place in places {
        if with_flags {
            out.array(2);
        }
        out.bulk(inner.get(place));
        if with_flags {
            out.set(2);
            let both = if spec.writes() { ["RW", "UPDATE"] } else { ["RO", "ACCESS"] };
            both.iter().for_each(|name| out.simple(name));
        }
    }
    Ok(())
}
