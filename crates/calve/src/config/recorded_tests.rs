//! A command after a run: what the record of it fills in.

use calve_core::{ErrorKind, TableName};

use super::{Given, Raw};
use crate::lake_dir::{LakeDir, PipelineRecord, RecordedTable};
use crate::test_dir::TestDir;

fn remember(lake: &LakeDir, name: &str, source: &str) {
    let mut raw = Raw::default();
    raw.set_flag("source", "--source", Some(source.to_owned()));
    raw.set_flag("namespace", "--namespace", Some("raw".to_owned()));
    raw.set_table_flags("tables", "--table", vec!["public.*".to_owned()]);
    let table = RecordedTable { source: TableName::new("public", "a"), target: TableName::new("raw", "a") };
    let pipeline = lake.pipeline(name);
    let _lock = pipeline.lock(name).unwrap();
    pipeline.write_record(&PipelineRecord::new(name, raw.to_record(), vec![table])).unwrap();
}

fn flags(dir: &TestDir, more: &[(&str, &str)]) -> Given {
    let mut raw = Raw::default();
    raw.set_flag("into", "--into", Some(dir.path().to_str().unwrap().to_owned()));
    for (key, value) in more {
        raw.set_flag(key, key, Some((*value).to_owned()));
    }
    Given { flags: raw, file: None }
}

#[test]
fn the_lake_alone_is_enough() {
    let dir = TestDir::new("recorded");
    let lake = LakeDir::new(dir.path());
    remember(&lake, "shop", "postgres://u:hunter2@h/db");
    let settings = flags(&dir, &[]).settings_or_recorded().unwrap();
    assert_eq!(settings.pipeline, "shop");
    assert_eq!(settings.source().unwrap().to_string(), "postgres://u@h:5432/db");
    assert_eq!(settings.tables.namespace.as_deref(), Some("raw"));
    // `run` takes nothing from it.
    assert!(flags(&dir, &[]).settings().is_err());
}

#[test]
fn one_of_several_pipelines_is_named() {
    let dir = TestDir::new("several");
    let lake = LakeDir::new(dir.path());
    remember(&lake, "shop", "postgres://u@h/db");
    remember(&lake, "audit", "postgres://u@h/other");
    let error = flags(&dir, &[]).settings_or_recorded().unwrap_err();
    assert!(error.to_string().contains("--name audit or --name shop"), "{error}");
    let settings = flags(&dir, &[("name", "audit")]).settings_or_recorded().unwrap();
    assert_eq!(settings.source().unwrap().database(), Some("other"));
}

#[test]
fn an_empty_lake_says_so() {
    let dir = TestDir::new("none");
    let error = flags(&dir, &[]).settings_or_recorded().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().starts_with("no pipeline has run on the lake"), "{error}");
}
