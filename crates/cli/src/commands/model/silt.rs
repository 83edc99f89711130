//! `siltstone model silt`: what a SILT system writes, reads and keeps in memory, and how long its device
//! lasts.

use crate::failure::{Result, refused};
use crate::output::{print, print_json};
use crate::sizes::{self, parse_positive, parse_size};
use crate::table::Table;
use siltstone_model::cost::silt::{Silt, SiltCosts};

/// Price a SILT system by its paper's model (SOSP 2011, section 5); the defaults are the paper's example
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone model silt\n  \
    siltstone model silt --keys 1e9 --merge-items 20M --updates-per-second 10k\n  \
    siltstone model silt --memory-per-item 0.6 --json")]
pub struct Args {
    /// Distinct keys
    #[arg(long, value_name = "COUNT", value_parser = parse_positive, default_value = "100M")]
    keys: u64,
    /// Independent instances that share the keys
    #[arg(long, value_name = "COUNT", value_parser = parse_positive, default_value = "4")]
    instances: u64,
    /// Entries in an instance's hash stores at which they are merged
    #[arg(long, value_name = "COUNT", value_parser = parse_positive, default_value = "7.5M")]
    merge_items: u64,
    /// Choose the entries per merge so that indexes take so many bytes per key
    #[arg(long, value_name = "BYTES", conflicts_with = "merge_items")]
    memory_per_item: Option<f64>,
    /// Bits of a tag
    #[arg(long, value_name = "BITS", default_value_t = 15)]
    tag_bits: u32,
    /// Bytes of an entry
    #[arg(long, value_name = "BYTES", value_parser = parse_size, default_value = "1024")]
    item_bytes: u64,
    /// Updates per second
    #[arg(long, value_name = "COUNT", value_parser = parse_positive, default_value = "5000")]
    updates_per_second: u64,
    /// Size of the device
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "256G")]
    device: u64,
    /// Times the device can be erased
    #[arg(long, value_name = "COUNT", value_parser = parse_positive, default_value = "10000")]
    erase_cycles: u64,
    /// Print {"write_amplification": …, "read_amplification": …, "memory_bytes_per_item": …,
    /// "lifetime_years": …, …}
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let mut silt = Silt {
        keys: args.keys as f64,
        instances: args.instances as f64,
        merge_items: args.merge_items as f64,
        tag_bits: args.tag_bits,
        item_bytes: args.item_bytes as f64,
        updates_per_second: args.updates_per_second as f64,
        device_bytes: args.device as f64,
        erase_cycles: args.erase_cycles as f64,
    };
    if let Some(memory) = args.memory_per_item {
        silt = silt.with_memory(memory).map_err(refused)?;
    }
    let costs = silt.costs().map_err(refused)?;
    if args.json {
        return print_json(&serde_json::json!({
            "parameters": silt,
            "write_amplification": costs.write_amplification,
            "steps": {"log": costs.log_writes, "conversion": costs.conversion_writes, "merge": costs.merge_writes},
            "read_amplification": costs.read_amplification,
            "false_positive_rate": costs.false_positive_rate,
            "hash_stores": costs.hash_stores,
            "memory_bytes_per_item": costs.memory_bytes_per_item,
            "memory_bytes": costs.memory_bytes,
            "lifetime_years": costs.lifetime_years,
        }));
    }
    print(&page(&silt, &costs, args.memory_per_item.is_some() || silt != Silt::default()))
}

fn page(silt: &Silt, costs: &SiltCosts, own: bool) -> String {
    let printed = |text: &str| if own { String::new() } else { text.to_owned() };
    let mut table = Table::new(["", "model", if own { "" } else { "paper" }]);
    table
        .row(["write amplification".into(), format!("{:.2}", costs.write_amplification), printed("5.4")])
        .row(["  log".into(), format!("{:.2}", costs.log_writes), String::new()])
        .row(["  log to hash store".into(), format!("{:.3}", costs.conversion_writes), printed("1.075")])
        .row(["  hash to sorted store".into(), format!("{:.2}", costs.merge_writes), String::new()])
        .row([
            "hash stores per instance, on average".into(),
            format!("{:.1}", costs.hash_stores),
            printed("31"),
        ])
        .row(["device reads per lookup".into(), format!("{:.4}", costs.read_amplification), printed("1.008")])
        .row(["memory per key, bytes".into(), format!("{:.3}", costs.memory_bytes_per_item), printed("0.73")])
        .row(["memory, MB".into(), format!("{:.1}", costs.memory_bytes / 1e6), printed("73")])
        .row(["life of the device, years".into(), format!("{:.2}", costs.lifetime_years), printed("3")]);
    let keys = sizes::count(silt.keys as u64);
    let head = format!(
        "{keys} keys of {:.0} bytes in {:.0} instances, merged every {} entries; {} updates/s\n\n",
        silt.item_bytes,
        silt.instances,
        sizes::count(silt.merge_items.round() as u64),
        sizes::count(silt.updates_per_second as u64),
    );
    format!("{head}{table}")
}
