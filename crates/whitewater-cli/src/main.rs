//! The `whitewater` command: SQL over files on the GPU.
//!
//! ```text
//! whitewater sql      statements ──▶ session ──▶ table | csv | json on standard output
//! whitewater devices  what is there, what it can do, why it cannot be used
//! whitewater demo     TPC-H Q1 and Q6 on the best device and on the CPU
//! whitewater bench    kernels and queries against recorded peers, as JSON lines
//! whitewater tpch     the TPC-H tables as Parquet files
//! ```
//!
//! An error is one line on standard error and exit status 1; a result reaches standard output
//! only once it is whole.

mod args;
mod bench;
mod compare;
mod demo;
mod device;
mod error;
mod output;
mod progress;
mod sql;
mod tpch;

use std::{io::Write, process::ExitCode};

use args::{Arguments, Command};
use clap::Parser;
use error::Error;

/// What the command's parts return.
type Result<T, E = Error> = std::result::Result<T, E>;

fn main() -> ExitCode {
    quiet_drivers();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(usage) if usage.use_stderr() => return fail(&error::usage_line(&usage)),
        Err(help) => {
            // A reader that closed the pipe early has seen what it wanted.
            let _ = help.print();
            return ExitCode::SUCCESS;
        }
    };
    start_log();
    match run(arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_closed_pipe() => ExitCode::SUCCESS,
        Err(error) => fail(&error.line()),
    }
}

fn run(command: Command) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Error::Runtime)?;
    runtime.block_on(async {
        match command {
            Command::Sql(options) => sql::run(options).await,
            Command::Devices => device::list(),
            Command::Bench(options) => bench::run(&options),
            Command::Demo(options) => demo::run(options).await,
            Command::Tpch(options) => tpch::write_files(&options),
        }
    })
}

/// Prints the one line of an error; the exit status of a failure is returned.
fn fail(line: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "error: {line}");
    ExitCode::FAILURE
}

/// Keeps software Vulkan drivers from complaining on standard error about a missing desktop.
fn quiet_drivers() {
    const RUNTIME_FOLDER: &str = "XDG_RUNTIME_DIR";
    if cfg!(target_os = "linux") && std::env::var_os(RUNTIME_FOLDER).is_none() {
        // SAFETY: nothing else runs yet, so no other thread reads the environment.
        unsafe { std::env::set_var(RUNTIME_FOLDER, std::env::temp_dir()) };
    }
}

/// Sends the engine's log to standard error, at the level that `WHITEWATER_LOG` asks for.
fn start_log() {
    use tracing_subscriber::EnvFilter;
    if let Ok(filter) = EnvFilter::try_from_env("WHITEWATER_LOG") {
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .init();
    }
}
