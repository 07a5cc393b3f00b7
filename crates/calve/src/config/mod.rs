//! From flags, a YAML file and the record of the last run to one validated [`Settings`].
//!
//! Flags win over the file, the file over the record. All three are brought into the same raw form first, so that an
//! option means the same wherever it is given, and every problem is found before anything is reported.

mod address;
mod interpolate;
mod layouts;
mod memory;
mod merges;
mod option;
mod pattern;
mod problem;
mod raw;
mod reader;
#[cfg(test)]
mod recorded_tests;
mod rules;
mod schema_changes;
mod secret;
mod settings;
#[cfg(test)]
mod tests;
mod units;
mod yaml;

use std::path::{Path, PathBuf};

use calve_core::{Error, ErrorKind, Result};

pub(crate) use option::nearest;
pub(crate) use raw::Raw;
pub(crate) use settings::{Catalog, LogFormat, Settings};

use crate::lake_dir::{LakeDir, PipelineRecord};
use problem::Problems;

/// Where options may come from.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) flags: Raw,
    pub(crate) file: Option<PathBuf>,
}

impl Given {
    /// The settings for `run` and `check`: flags over the file, and nothing else.
    pub(crate) fn settings(self) -> Result<Settings> {
        self.read(None)
    }

    /// The settings for commands on a pipeline that has run: without a file, what flags leave open is as it was then.
    pub(crate) fn settings_or_recorded(self) -> Result<Settings> {
        if self.file.is_some() {
            return self.read(None);
        }
        let Some(into) = self.flags.text("into") else { return self.read(None) };
        let lake = LakeDir::new(into);
        let record = recorded(&lake, self.flags.text("name"))?;
        if record.is_none() && !self.flags.names_source() {
            let message = format!(
                "no pipeline has run on the lake {lake}; check --into and --name, or give a configuration file"
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        self.read(record)
    }

    fn read(self, record: Option<PipelineRecord>) -> Result<Settings> {
        let mut problems = Problems::default();
        let variable = |name: &str| std::env::var(name).ok();
        let from_file = match &self.file {
            None => Raw::default(),
            Some(file) => read_file(file, &variable, &mut problems)?,
        };
        let mut raw = self.flags.over(&from_file);
        if let Some(record) = record {
            let mut recorded = Raw::from_record(&record.settings);
            recorded.set_recorded("name", &record.pipeline);
            raw = raw.over(&recorded);
        }
        let settings = Settings::read(raw, self.file.as_deref(), &mut problems);
        if problems.is_empty() { Ok(settings) } else { Err(problems.into_error(self.file.as_deref())) }
    }
}

fn read_file(file: &Path, variable: &dyn Fn(&str) -> Option<String>, problems: &mut Problems) -> Result<Raw> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        Error::new(ErrorKind::Config, format!("the configuration file {} cannot be read: {error}", file.display()))
    })?;
    match yaml::parse(&text) {
        Ok(root) => Ok(Raw::from_yaml(root, variable, problems)),
        // Nothing else can be said of a file that cannot be parsed.
        Err(problem) => {
            let mut problems = Problems::default();
            problems.add(problem);
            Err(problems.into_error(Some(file)))
        }
    }
}

/// The record of the pipeline named, or of the only one there is.
fn recorded(lake: &LakeDir, name: Option<&str>) -> Result<Option<PipelineRecord>> {
    if let Some(name) = name {
        return lake.record(name);
    }
    match lake.pipelines()?.as_slice() {
        [] => Ok(None),
        [only] => lake.record(only),
        many => {
            let message =
                format!("several pipelines write into {lake}: name one with --name {}", many.join(" or --name "));
            Err(Error::new(ErrorKind::Config, message))
        }
    }
}
