//! Logs go to standard error: for people on a terminal, one JSON object a line otherwise.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::config::{LogFormat, Settings};

/// Begins logging. Called once, by commands that run for long.
pub(crate) fn start(settings: &Settings) {
    let log = &settings.log;
    let human = match log.format {
        LogFormat::Auto => std::io::stderr().is_terminal(),
        LogFormat::Human => true,
        LogFormat::Json => false,
    };
    // The level is calve's own; what its dependencies say is only heard when it is a warning.
    let filter = EnvFilter::new(format!("warn,calve={level}", level = log.level));
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if human {
        subscriber.with_target(false).with_ansi(std::io::stderr().is_terminal()).init();
    } else {
        subscriber.json().flatten_event(true).with_current_span(false).with_span_list(false).init();
    }
}
