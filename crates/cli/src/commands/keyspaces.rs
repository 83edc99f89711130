//! `siltstone keyspaces`: what keyspaces a store has.

use crate::failure::Result;
use crate::output::{print, print_json};
use crate::sizes;
use crate::store;
use crate::table::Table;
use std::path::PathBuf;

/// List the keyspaces of a store
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  siltstone keyspaces ./store\n  siltstone keyspaces ./store --json")]
pub struct Args {
    /// Directory of the store
    dir: PathBuf,
    /// Print {"keyspaces": [{"name": …, "schema": …, "preset": …, "items_estimate": …, "table_bytes": …,
    /// "design": {…}}, …]}
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let db = store::open_read_only(&args.dir)?;
    let keyspaces = db.stats().keyspaces;
    if args.json {
        let listed: Vec<_> = keyspaces
            .iter()
            .map(|k| {
                serde_json::json!({
                    "name": k.name, "schema": k.schema, "preset": k.preset,
                    "items_estimate": k.items_estimate, "table_bytes": k.table_bytes,
                    "design": db.get_keyspace(&k.name).map(|keyspace| keyspace.design()),
                })
            })
            .collect();
        return print_json(&serde_json::json!({ "keyspaces": listed }));
    }
    let mut table = Table::new(["keyspace", "schema", "preset", "items (about)", "table bytes"]).left(3);
    for k in &keyspaces {
        table.row([
            k.name.clone(),
            store::schema_name(&k.schema),
            k.preset.to_string(),
            sizes::count(k.items_estimate),
            sizes::bytes(k.table_bytes),
        ]);
    }
    print(&table.to_string())
}
