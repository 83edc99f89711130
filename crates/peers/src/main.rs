//! The comparison of Siltstone with other storage engines; see docs/peers.md.

fn main() -> std::process::ExitCode {
    siltstone_peers::cli::run()
}
