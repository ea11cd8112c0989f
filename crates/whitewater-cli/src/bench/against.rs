//! Recorded results of peers, and the table of ratios.

use std::{collections::BTreeMap, fs, io::Write, path::Path};

use serde::Deserialize;

use crate::{Error, Result};

/// A recorded line: a case by name, or a TPC-H query by number.
#[derive(Deserialize)]
struct RecordedLine {
    case: Option<String>,
    q: Option<u32>,
    ms: f64,
}

/// Milliseconds by case.
#[derive(Debug, Default)]
pub struct Recorded {
    ms: BTreeMap<String, f64>,
}

impl Recorded {
    /// Reads JSON lines with `case` (or `q`, whose case is called `tpch qN`) and `ms`.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(|source| Error::File {
            path: path.into(),
            source,
        })?;
        let mut recorded = Self::default();
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let bad = |reason: String| Error::Recorded {
                path: path.into(),
                line: index + 1,
                reason,
            };
            let line: RecordedLine = serde_json::from_str(line).map_err(|e| bad(e.to_string()))?;
            let name = match (line.case, line.q) {
                (Some(case), _) => case,
                (None, Some(query)) => format!("tpch q{query}"),
                (None, None) => return Err(bad("neither \"case\" nor \"q\"".into())),
            };
            recorded.ms.insert(name, line.ms);
        }
        Ok(recorded)
    }

    /// The recorded time of a case.
    pub fn ms(&self, case: &str) -> Option<f64> {
        self.ms.get(case).copied()
    }
}

/// Our times beside the recorded ones.
#[derive(Default)]
pub struct Comparison {
    rows: Vec<(String, f64, Option<f64>)>,
}

impl Comparison {
    pub fn add(&mut self, case: &str, ms: f64, recorded: Option<f64>) {
        self.rows.push((case.into(), ms, recorded));
    }

    /// Prints the table on standard error, so that standard output stays JSON lines.
    pub fn print(&self, path: &Path) {
        let peer = path.file_stem().unwrap_or_default().to_string_lossy();
        let _ = std::io::stderr().write_all(self.table(&peer).as_bytes());
    }

    fn table(&self, peer: &str) -> String {
        let names = self.rows.iter().map(|row| row.0.chars().count());
        let width = names.chain([4]).max().unwrap_or_default();
        let mut text = format!(
            "against {peer}; under 1 is faster\n{:width$}  {:>10}  {:>10}  {:>7}\n",
            "case", "ms", "recorded", "ratio"
        );
        for (case, ms, recorded) in &self.rows {
            text += &match recorded {
                Some(peer) => {
                    format!(
                        "{case:width$}  {ms:>10.3}  {peer:>10.3}  {:>7.2}\n",
                        ms / peer
                    )
                }
                None => format!("{case:width$}  {ms:>10.3}  {:>10}  {:>7}\n", "-", "-"),
            };
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn both_kinds_of_lines_are_read() {
        let file = file("{\"case\": \"a\", \"ms\": 2.0, \"min\": 1}\n\n{\"q\": 6, \"ms\": 3.5}\n");
        let recorded = Recorded::read(file.path()).unwrap();
        assert_eq!(recorded.ms("a"), Some(2.0));
        assert_eq!(recorded.ms("tpch q6"), Some(3.5));
        assert_eq!(recorded.ms("b"), None);
    }

    #[test]
    fn a_bad_line_is_named() {
        let file = file("{\"case\": \"a\", \"ms\": 2.0}\n{\"ms\": 1}\n");
        let error = Recorded::read(file.path()).unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
    }

    #[test]
    fn ratios_are_ours_over_theirs() {
        let mut comparison = Comparison::default();
        comparison.add("x", 1.0, Some(4.0));
        comparison.add("y", 1.0, None);
        let table = comparison.table("peer");
        assert!(table.contains("0.25"), "{table}");
        assert!(table.lines().last().unwrap().ends_with('-'), "{table}");
    }
}
