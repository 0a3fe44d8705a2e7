//! A panic is an event of the log, and nothing else is printed: its message may hold a secret.

use std::any::Any;
use std::backtrace::Backtrace;
use std::panic::PanicHookInfo;

/// From here on, whichever thread panics.
pub(super) fn report_as_events() {
    std::panic::set_hook(Box::new(report));
}

/// Within the span of the call that panics, so the line bears its id.
fn report(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    tracing::error!(
        thread = thread.name(),
        location = panic.location().map(tracing::field::display),
        backtrace = %Backtrace::force_capture(),
        "panic: {}",
        message(panic.payload()),
    );
}

fn message(payload: &dyn Any) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
