//! RocksDB's OPTIONS file as lines that are kept, and settings among them that can be read and changed.
//!
//! Source: the file's own example in RocksDB (`examples/rocksdb_option_file_example.ini`): sections `[Kind]`
//! or `[Kind "name"]`, settings `name=value`, comments after `#`. Nested values `{a=1;b=2;}` stay text here;
//! [`nested`] looks into them. *Invariant*: printing a file that was not changed gives its very bytes back.

use crate::ModelError;
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

/// Longest file taken for an OPTIONS file, in bytes; real ones have some 10 KiB per column family.
pub const MAX_BYTES: usize = 16 << 20;

/// An OPTIONS file.
///
/// ```
/// use siltstone_model::tune::ini::OptionsFile;
///
/// let text = "[Version]\n  rocksdb_version=7.8.3\n[CFOptions \"default\"]\n  num_levels=7  # as it comes\n";
/// let mut file = OptionsFile::parse(text)?;
/// assert_eq!(file.get("CFOptions \"default\"", "num_levels"), Some("7"));
/// file.set("CFOptions \"default\"", "num_levels", "5");
/// assert!(file.to_string().ends_with("  num_levels=5  # as it comes\n"));
/// # Ok::<(), siltstone_model::ModelError>(())
/// ```
#[derive(Clone, Debug)]
pub struct OptionsFile {
    /// Lines with their line ends.
    lines: Vec<String>,
    sections: Vec<Section>,
}

#[derive(Clone, Debug)]
struct Section {
    title: String,
    header_line: usize,
    settings: Vec<Setting>,
}

#[derive(Clone, Debug)]
struct Setting {
    name: String,
    line: usize,
    value: Range<usize>,
}

impl OptionsFile {
    /// Reads the text of an OPTIONS file.
    ///
    /// # Errors
    /// The first line that is neither section, setting, comment nor empty; a setting outside of sections or
    /// twice in one; a section that is there twice; a file without sections, which is something else than
    /// OPTIONS.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        if text.len() > MAX_BYTES {
            return Err(damaged(0, "this is longer than any OPTIONS file; give the OPTIONS-… file itself"));
        }
        if text.contains('\0') {
            return Err(damaged(
                0,
                "this is a binary file; give the OPTIONS-… file of the store's directory",
            ));
        }
        let lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
        let mut file = Self { lines, sections: Vec::new() };
        let mut seen = HashSet::new();
        for number in 0..file.lines.len() {
            file.read_line(number, &mut seen)?;
        }
        if file.sections.is_empty() {
            return Err(damaged(0, "no [section] in it; give the OPTIONS-… file of the store's directory"));
        }
        Ok(file)
    }

    fn read_line(&mut self, number: usize, seen: &mut HashSet<(usize, String)>) -> Result<(), ModelError> {
        let line = self.lines.get(number).map(String::as_str).unwrap_or_default();
        let content = line.split('#').next().unwrap_or_default();
        let trimmed = content.trim();
        if trimmed.is_empty() {
            return Ok(());
        }
        if let Some(title) = trimmed.strip_prefix('[') {
            let Some(title) = title.strip_suffix(']') else {
                return Err(damaged(number, "a section's header lacks its closing bracket"));
            };
            // No section has number 0: settings count their sections from 1.
            if !seen.insert((0, title.to_owned())) {
                return Err(damaged(number, &format!("section [{title}] is there twice")));
            }
            let section = Section { title: title.to_owned(), header_line: number, settings: Vec::new() };
            self.sections.push(section);
            return Ok(());
        }
        let Some((name, value)) = content.split_once('=') else {
            return Err(damaged(
                number,
                "expected name=value; the file may be cut or not be an OPTIONS file",
            ));
        };
        let start = name.len() + 1 + (value.len() - value.trim_start().len());
        let setting =
            Setting { name: name.trim().to_owned(), line: number, value: start..start + value.trim().len() };
        let section_number = self.sections.len();
        let Some(section) = self.sections.last_mut() else {
            return Err(damaged(number, "a setting before the first [section]"));
        };
        if !seen.insert((section_number, setting.name.clone())) {
            return Err(damaged(number, &format!("{} is set twice in [{}]", setting.name, section.title)));
        }
        section.settings.push(setting);
        Ok(())
    }

    /// The titles of all sections, in the file's order.
    pub fn sections(&self) -> impl Iterator<Item = &str> {
        self.sections.iter().map(|section| section.title.as_str())
    }

    /// A setting's value, or `None` if the section or the setting is not there.
    pub fn get(&self, section: &str, name: &str) -> Option<&str> {
        let setting = self.section(section)?.settings.iter().find(|setting| setting.name == name)?;
        self.lines.get(setting.line)?.get(setting.value.clone())
    }

    /// All settings of a section as (name, value), in the file's order.
    pub fn settings(&self, section: &str) -> Vec<(&str, &str)> {
        let settings = self.section(section).map(|found| found.settings.as_slice()).unwrap_or_default();
        settings
            .iter()
            .filter_map(|setting| {
                let value = self.lines.get(setting.line)?.get(setting.value.clone())?;
                Some((setting.name.as_str(), value))
            })
            .collect()
    }

    /// Changes a setting, or adds it after the section's header; every other byte stays. Returns whether
    /// there is such a section; without one nothing changes.
    pub fn set(&mut self, section: &str, name: &str, value: &str) -> bool {
        let Some(found) = self.sections.iter_mut().find(|other| other.title == section) else { return false };
        if let Some(setting) = found.settings.iter_mut().find(|setting| setting.name == name) {
            if let Some(line) = self.lines.get_mut(setting.line) {
                line.replace_range(setting.value.clone(), value);
            }
            setting.value = setting.value.start..setting.value.start + value.len();
            return true;
        }
        self.insert(section, name, value);
        true
    }

    /// Adds a line below the section's header. Everything after it moves down by one.
    fn insert(&mut self, section: &str, name: &str, value: &str) {
        let Some(header) = self.section(section).map(|found| found.header_line) else { return };
        // A header on a last line without a line feed gets one.
        if let Some(line) = self.lines.get_mut(header).filter(|line| !line.ends_with('\n')) {
            line.push('\n');
        }
        let at = header + 1;
        self.lines.insert(at, format!("  {name}={value}\n"));
        for other in &mut self.sections {
            other.header_line += usize::from(other.header_line >= at);
            for setting in &mut other.settings {
                setting.line += usize::from(setting.line >= at);
            }
            if other.title == section {
                let start = name.len() + 3;
                let value = start..start + value.len();
                other.settings.insert(0, Setting { name: name.to_owned(), line: at, value });
            }
        }
    }

    fn section(&self, title: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.title == title)
    }
}

impl fmt::Display for OptionsFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| f.write_str(line))
    }
}

/// A field of a nested value such as `{size_ratio=1;max_merge_width=4294967295;}`.
pub fn nested<'a>(value: &'a str, name: &str) -> Option<&'a str> {
    let inside = value.trim().strip_prefix('{')?.strip_suffix('}')?;
    inside.split(';').find_map(|field| {
        let (field_name, field_value) = field.split_once('=')?;
        (field_name.trim() == name).then_some(field_value.trim())
    })
}

fn damaged(line: usize, why: &str) -> ModelError {
    let place = if line == 0 { String::new() } else { format!("line {}: ", line + 1) };
    ModelError::new("OPTIONS", format!("{place}{why}"))
}
