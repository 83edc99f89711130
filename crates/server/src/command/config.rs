//! CONFIG: settings read and changed while the server runs.

use super::spec::{Spec, flags::*};
use super::{Context, help, text, unknown_subcommand, wrong_arity};
use crate::failure::{Failure, Outcome};
use crate::resp::{Output, Request};

pub const TABLE: &[Spec] = &[Spec::new("config", -2, ALONE | INSTANT | ADMIN, config).about(
    "server",
    "2.0.0",
    "Reads settings and changes them.",
)];

fn config(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let config = &context.server.config;
    match (request.get(1).to_ascii_uppercase().as_slice(), request.len()) {
        (b"GET", 3..) => {
            let found = config.matching(request.from(2));
            out.map(found.len());
            for (name, value) in found {
                out.text(name);
                out.text(&value);
            }
        }
        (b"SET", length) if length >= 4 && length % 2 == 0 => {
            let words: Vec<String> = request.from(2).map(text).collect();
            let (pairs, _) = words.as_chunks::<2>();
            let pairs: Vec<_> =
                pairs.iter().map(|[name, value]| (name.to_lowercase(), value.clone())).collect();
            let names = config.set(&pairs).map_err(Failure::new)?;
            context.server.settings_changed(&names);
            out.ok();
        }
        (b"SET" | b"GET", _) => return Err(wrong_arity(&format!("config|{}", text(request.get(1))))),
        (b"RESETSTAT", 2) => {
            context.server.reset_statistics();
            out.ok();
        }
        (b"REWRITE", 2) => {
            let Some(path) = &context.server.config_file else {
                return Err(Failure::coded("ERR The server is running without a config file"));
            };
            let written = std::fs::write(path, config.file());
            written.map_err(|error| Failure::new(format!("Rewriting config file: {error}")))?;
            out.ok();
        }
        (b"HELP", 2) => {
            help(out, "CONFIG", &["GET <pattern>", "    Return parameters matching the glob-like <pattern>."])
        }
        _ => return Err(unknown_subcommand(request)),
    }
    Ok(())
}
