//! What the configuration says of tables whose schema changes.

use calve_engine::{Policy, SchemaPolicies};

use super::option::nearest;
use super::raw::TableEntry;
use super::reader::Reader;

/// An option of the section.
struct PolicyOption {
    key: &'static str,
    parse: fn(&str) -> std::result::Result<Policy, String>,
    of: fn(&mut SchemaPolicies) -> &mut Policy,
}

const OPTIONS: [PolicyOption; 8] = [
    PolicyOption { key: "schema_changes.add_column", parse: of_columns, of: |all| &mut all.add_column },
    PolicyOption { key: "schema_changes.drop_column", parse: of_columns, of: |all| &mut all.drop_column },
    PolicyOption { key: "schema_changes.rename_column", parse: policy, of: |all| &mut all.rename_column },
    PolicyOption { key: "schema_changes.widen_type", parse: policy, of: |all| &mut all.widen_type },
    PolicyOption { key: "schema_changes.drop_not_null", parse: policy, of: |all| &mut all.drop_not_null },
    PolicyOption { key: "schema_changes.drop_partition", parse: of_partitions, of: |all| &mut all.drop_partition },
    PolicyOption { key: "schema_changes.swap", parse: policy, of: |all| &mut all.swap },
    PolicyOption { key: "schema_changes.otherwise", parse: of_the_rest, of: |all| &mut all.otherwise },
];

/// Every option of the section; those that are not given are as the engine has them.
pub(super) fn read(reader: &mut Reader<'_>) -> SchemaPolicies {
    let mut policies = SchemaPolicies::default();
    for option in OPTIONS {
        if let Some(policy) = reader.value(option.key, option.parse) {
            *(option.of)(&mut policies) = policy;
        }
    }
    policies
}

/// What an entry of `tables` has of its own, over those of all tables. None where that is nothing.
pub(super) fn of_entry(reader: &mut Reader<'_>, entry: &TableEntry, all: SchemaPolicies) -> Option<SchemaPolicies> {
    let mut policies = all;
    for option in OPTIONS {
        let Some(given) = option.key.split_once('.').and_then(|(_, name)| entry.schema_changes.get(name)) else {
            continue;
        };
        match (option.parse)(&given.text) {
            Ok(policy) => *(option.of)(&mut policies) = policy,
            Err(what) => reader.refuse(option.key, given, &what),
        }
    }
    (!entry.schema_changes.is_empty()).then_some(policies)
}

fn policy(text: &str) -> std::result::Result<Policy, String> {
    one_of(text, &[Policy::Apply, Policy::Reload, Policy::Stop])
}

fn of_columns(text: &str) -> std::result::Result<Policy, String> {
    one_of(text, &[Policy::Apply, Policy::Ignore, Policy::Reload, Policy::Stop])
}

fn of_partitions(text: &str) -> std::result::Result<Policy, String> {
    if text == "apply" {
        return Err(
            "the log does not say which rows were in a partition; use stop, reload, or ignore to keep them".to_owned()
        );
    }
    one_of(text, &[Policy::Stop, Policy::Reload, Policy::Ignore])
}

fn of_the_rest(text: &str) -> std::result::Result<Policy, String> {
    if text == "apply" {
        return Err("rows that are in the lake cannot follow these changes; use stop, or reload".to_owned());
    }
    one_of(text, &[Policy::Stop, Policy::Reload])
}

fn one_of(text: &str, policies: &[Policy]) -> std::result::Result<Policy, String> {
    if let Some(policy) = policies.iter().find(|policy| policy.word() == text) {
        return Ok(*policy);
    }
    if text == Policy::Ignore.word() {
        return Err(
            "what is ignored would have the lake's rows differ from the source's by more than is said; leave it out"
                .to_owned(),
        );
    }
    let words: Vec<&str> = policies.iter().map(|policy| policy.word()).collect();
    Err(match (nearest(text, words.iter().copied()), words.split_last()) {
        (Some(meant), _) => format!("'{text}' is no policy; did you mean '{meant}'?"),
        (None, Some((last, others))) => format!("'{text}' is no policy; use {} or {last}", others.join(", ")),
        (None, None) => format!("'{text}' is no policy"),
    })
}

#[cfg(test)]
mod tests {
    use calve_core::TableName;
    use calve_engine::{Policy, SchemaPolicies};

    use crate::config::problem::Problems;
    use crate::config::raw::Raw;
    use crate::config::{Settings, yaml};

    use super::OPTIONS;

    const README: &str = include_str!("../../../../README.md");

    const TABLES: &str = "
into: l
name: n
schema_changes: {otherwise: reload, add_column: stop}
tables:
  - shop.plain
  - name: shop.own
    schema_changes: {add_column: apply, drop_partition: ignore}
  - name: shop.narrow
    schema_changes: {add_column: ignore, drop_column: apply}
  - name: shop.*
    schema_changes: {swap: stop}
";

    fn read(yaml: &str) -> (Settings, Raw, Vec<String>) {
        let mut problems = Problems::default();
        let raw = Raw::from_yaml(yaml::parse(yaml).unwrap(), &|_| None, &mut problems);
        let settings = Settings::read(raw.clone(), None, &mut problems);
        (settings, raw, problems.lines())
    }

    fn check(settings: &Settings) {
        let policies = |name: &str| settings.policies(&TableName::new("shop", name));
        let of = |name: &str| {
            let policies = policies(name);
            (policies.add_column, policies.drop_partition, policies.swap, policies.otherwise)
        };
        assert_eq!(of("plain"), (Policy::Stop, Policy::Stop, Policy::Apply, Policy::Reload));
        assert_eq!(of("own"), (Policy::Apply, Policy::Ignore, Policy::Apply, Policy::Reload));
        assert_eq!(of("other"), (Policy::Stop, Policy::Stop, Policy::Stop, Policy::Reload));
        assert_eq!((policies("narrow").drop_column, policies("own").drop_column), (Policy::Apply, Policy::Ignore));
        let leaves_out = |name: &str| settings.tables.rules().table(&TableName::new("shop", name)).leaves_out_added;
        assert_eq!(["narrow", "own", "plain"].map(leaves_out), [true, false, false]);
    }

    #[test]
    fn a_table_may_have_policies_of_its_own() {
        let (settings, raw, problems) = read(TABLES);
        assert!(problems.iter().all(|problem| !problem.contains("schema_changes")), "{problems:?}");
        check(&settings);
        // What is remembered says the same.
        let again = Settings::read(Raw::from_record(&raw.to_record()), None, &mut Problems::default());
        check(&again);
    }

    #[test]
    fn what_is_wrong_with_them_is_said() {
        let (_, _, problems) = read(
            "
tables:
  - name: shop.a
    schema_changes: {add_column: aply}
  - name: shop.b
    schema_changes: {drop_colum: stop}
  - name: shop.c
    schema_changes: stop
  - name: shop.d
    schema_changes: {widen_type: ignore}
",
        );
        for part in [
            "did you mean 'apply'?",
            "did you mean 'drop_column'?",
            "'schema_changes' takes options",
            "ignored would have",
        ] {
            assert!(problems.iter().any(|problem| problem.contains(part)), "'{part}' is not among {problems:?}");
        }
    }

    #[test]
    fn the_readme_has_every_option_with_its_default() {
        let mut documented = Vec::new();
        for line in README.lines().filter(|line| line.starts_with("| `schema_changes.")) {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let code = |text: &str| text.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
            for name in code(cells[1]) {
                let key =
                    format!("schema_changes.{}", name.trim_start_matches("schema_changes").trim_start_matches('.'));
                let option = OPTIONS.iter().find(|option| option.key == key).expect(&key);
                let default = *(option.of)(&mut SchemaPolicies::default());
                assert_eq!(code(cells[3]), [default.word()], "the default of {key}");
                for policy in [Policy::Apply, Policy::Ignore, Policy::Reload, Policy::Stop] {
                    let said = code(cells[4]).iter().any(|word| word == policy.word());
                    assert!(said || (option.parse)(policy.word()).is_err(), "{key} may be {}", policy.word());
                }
                documented.push(key);
            }
        }
        let mut options = OPTIONS.map(|option| option.key.to_owned());
        options.sort();
        documented.sort();
        assert_eq!(documented, options);
    }
}
