//! A progress bar that appears after a second, on a terminal only.

use std::{
    io::IsTerminal,
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    thread::JoinHandle,
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const PATIENCE: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(100);

/// Shows that something is going on; gone from the screen when dropped.
pub struct Progress {
    bar: ProgressBar,
    waiter: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// A spinner beside `message`.
    pub fn spinner(message: impl Into<String>) -> Self {
        Self::start(None, message.into())
    }

    /// A bar over `length` steps beside `message`.
    pub fn bar(length: u64, message: impl Into<String>) -> Self {
        Self::start(Some(length), message.into())
    }

    /// Counts `steps` more as done.
    pub fn advance(&self, steps: u64) {
        self.bar.inc(steps);
    }

    /// Changes the text beside the bar.
    pub fn say(&self, message: impl Into<String>) {
        self.bar.set_message(message.into());
    }

    fn start(length: Option<u64>, message: String) -> Self {
        let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::hidden());
        let template = match length {
            Some(_) => "{spinner} {msg} {wide_bar} {percent:>3}% {eta}",
            None => "{spinner} {msg} {elapsed}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(message);
        let waiter = std::io::stderr().is_terminal().then(|| {
            let (stop, stopped) = channel();
            let bar = bar.clone();
            let thread = std::thread::spawn(move || {
                if stopped.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                    bar.set_draw_target(ProgressDrawTarget::stderr());
                    bar.enable_steady_tick(TICK);
                }
            });
            (stop, thread)
        });
        Self { bar, waiter }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.waiter.take() {
            let _ = stop.send(());
            let _ = thread.join();
        }
        self.bar.finish_and_clear();
    }
}
