//! Progress on standard error, where people can see it and scripts need not.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;

/// A bar over `total` bytes, or a counter where the total is not known. Hidden unless standard error is a
/// terminal.
pub fn bytes_bar(total: Option<u64>) -> ProgressBar {
    let template = match total {
        Some(_) => "{spinner} {bytes}/{total_bytes} ({percent} %) {bar:30} {bytes_per_sec} {msg}",
        None => "{spinner} {bytes} {bytes_per_sec} {msg}",
    };
    styled(total, template)
}

/// A bar over `total` things, or a counter where the total is not known; the message says what is being done.
pub fn count_bar(total: Option<u64>, what: &str) -> ProgressBar {
    let template = match total {
        Some(_) => "{spinner} {msg} {human_pos}/{human_len} {bar:30} {per_sec}",
        None => "{spinner} {msg} {human_pos} {per_sec}",
    };
    let bar = styled(total, template);
    bar.set_message(what.to_owned());
    bar
}

/// A line that says what is being done.
pub fn spinner() -> ProgressBar {
    styled(None, "{spinner} {msg}")
}

fn styled(total: Option<u64>, template: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr_with_hz(5));
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    if !bar.is_hidden() {
        bar.enable_steady_tick(Duration::from_millis(250));
    }
    bar
}
