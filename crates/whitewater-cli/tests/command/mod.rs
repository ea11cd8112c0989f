//! Runs the built command and holds it to its manners.

use std::{
    fs,
    io::{Read, Write},
    process::{Command, ExitStatus, Stdio},
};

/// What a run of the command left.
pub struct Run {
    pub success: bool,
    pub out: String,
    pub errors: String,
    code: Option<i32>,
}

impl Run {
    /// Standard output of a run that must have succeeded without a word on standard error.
    pub fn succeeds(self) -> String {
        assert!(self.success, "{}", self.errors);
        assert_eq!(self.errors, "");
        self.out
    }

    /// The one line of a run that must have failed with nothing on standard output.
    pub fn fails(self) -> String {
        assert_eq!(self.code, Some(1), "{}", self.errors);
        assert_eq!(self.out, "");
        assert_eq!(self.errors.lines().count(), 1, "{}", self.errors);
        assert!(self.errors.starts_with("error: "), "{}", self.errors);
        self.errors
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_whitewater"));
    command
        .args(arguments)
        .env_remove("WHITEWATER_DEVICE")
        .env_remove("WHITEWATER_LOG")
        .env_remove("XDG_RUNTIME_DIR")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn finish(command: &mut Command, input: &[u8]) -> Run {
    let mut child = command.spawn().unwrap();
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input).unwrap();
    }
    let output = child.wait_with_output().unwrap();
    Run {
        success: output.status.success(),
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        errors: String::from_utf8(output.stderr).unwrap(),
    }
}

pub fn whitewater(arguments: &[&str]) -> Run {
    finish(&mut command(arguments), b"")
}

#[allow(dead_code, reason = "not every test file needs it")]
pub fn whitewater_reading(arguments: &[&str], input: &[u8]) -> Run {
    finish(command(arguments).stdin(Stdio::piped()), input)
}

#[allow(dead_code, reason = "not every test file needs it")]
pub fn whitewater_with(variable: &str, value: &str, arguments: &[&str]) -> Run {
    finish(command(arguments).env(variable, value), b"")
}

/// Runs with a reader that takes a few bytes and goes away.
#[allow(dead_code, reason = "not every test file needs it")]
pub fn with_closed_output(arguments: &[&str]) -> (ExitStatus, String) {
    let mut child = command(arguments).spawn().unwrap();
    let mut start = [0; 16];
    child.stdout.take().unwrap().read_exact(&mut start).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status, String::from_utf8(output.stderr).unwrap())
}

/// A folder that is gone after the test.
pub struct Folder(tempfile::TempDir);

impl Folder {
    #[allow(clippy::new_without_default, reason = "a test's folder, not a value")]
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    pub fn write(&self, name: &str, bytes: &[u8]) -> String {
        fs::write(self.0.path().join(name), bytes).unwrap();
        self.path(name)
    }

    /// Writes what a CSV file holds in another format.
    #[allow(dead_code, reason = "not every test file needs it")]
    pub fn copy_out(&self, name: &str, csv: &str, format: &str) -> String {
        let path = self.path(name);
        let table = format!("t={csv}");
        let copy = format!("COPY (SELECT * FROM t) TO '{path}' STORED AS {format}");
        whitewater(&["sql", "--device", "cpu", "--table", &table, &copy]).succeeds();
        path
    }
}
