//! `siltstone merge`: merge an operand into one item.

use crate::failure::{Result, fail};
use crate::store::{self, CreateArgs, DEFAULT_KEYSPACE};
use siltstone::encode_set;
use std::ffi::OsString;
use std::path::PathBuf;

/// Merge an operand into one item, without reading it
///
/// The keyspace's merge operator, which it was created with, says what becomes of the item. OPERAND is a
/// number where the operator takes numbers (add, add-saturating, max-u64, min-u64), one member for set-union,
/// and otherwise bytes; KEY and bytes are text with the escapes \t \n \r \\ \xNN. The operand is on the disk
/// when the command returns.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone merge ./store /index.html 1 --keyspace hits --merge-operator add\n  \
    siltstone merge ./store /index.html 41 --keyspace hits\n  \
    siltstone merge ./store city:7 river --keyspace tags --merge-operator set-union\n  \
    siltstone get ./store /index.html --keyspace hits")]
pub struct Args {
    /// Directory of the store
    dir: PathBuf,
    /// The key
    key: OsString,
    /// What to merge
    #[arg(allow_hyphen_values = true)]
    operand: OsString,
    /// Keyspace to write to; created where it does not exist and --merge-operator is given
    #[arg(long, value_name = "NAME", default_value = DEFAULT_KEYSPACE)]
    keyspace: String,
    #[command(flatten)]
    create: CreateArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let new = args.create.check(&store::synced())?;
    let key = store::argument("KEY", &args.key)?;
    args.create.check_key(&key)?;
    let operator = args.create.merge_operator();
    // Without an operator nothing can be made for the item.
    let db = match operator {
        Some(operator) => {
            operand(operator, &args.operand)?;
            store::open_or_create(&args.dir, store::synced())?
        }
        None => store::open_existing(&args.dir, store::synced())?,
    };
    if operator.is_none() && db.get_keyspace(&args.keyspace).is_none() {
        return Err(store::no_keyspace(&db, &args.keyspace, "; give --merge-operator to create it"));
    }
    let keyspace = args.create.open_keyspace(&db, &args.keyspace, new)?;
    let Some(operator) = keyspace.merge_operator() else {
        fail!(
            "keyspace {:?} takes no merges; a merge operator is given when a keyspace is created, use another name and \
             --merge-operator",
            args.keyspace
        );
    };
    keyspace.merge(&key, operand(operator, &args.operand)?)?;
    Ok(db.close()?)
}

/// The bytes of an operand as typed for `operator`.
fn operand(operator: &str, typed: &OsString) -> Result<Vec<u8>> {
    let bytes = store::argument("OPERAND", typed)?;
    let is_number = matches!(operator, "add" | "add-saturating" | "max-u64" | "min-u64");
    if is_number {
        let text = std::str::from_utf8(&bytes).unwrap_or_default();
        let number = text.parse::<u64>().ok();
        // Sums of signed numbers are those of unsigned ones, bit by bit.
        let signed = if operator == "add" { text.parse::<i64>().ok() } else { None };
        return match (number, signed) {
            (Some(number), _) => Ok(number.to_le_bytes().to_vec()),
            (None, Some(number)) => Ok(number.to_le_bytes().to_vec()),
            (None, None) => fail!("OPERAND: {text:?} is no whole number that {operator} takes"),
        };
    }
    Ok(if operator == "set-union" { encode_set([bytes]) } else { bytes })
}
